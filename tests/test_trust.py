"""Trust in files that are used again: whole ones of the user or of root, in folders that nobody else can replace."""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import in_fork

from torchdevice_cuda import trust

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away, and be someone else")
NOBODY, OTHER = 65534, 12345
CONTENT = b"\x7fELF code"


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a cache that other users can reach, in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "above" / "cache"
        monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(folder))
        yield folder


def give_away(path: Path) -> None:
    os.chown(path, OTHER, -1, follow_symlinks=False)


def become_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def become_a_foreign_link(path: Path) -> None:
    become_a_link(path)
    give_away(path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def become_empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[2] ^= 0xFF
    path.write_bytes(content)


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


def open_to_a_group(path: Path) -> None:
    os.chown(path, -1, 1)  # which has other members, or an account of its own
    path.chmod(0o775)


def become_like_tmp(path: Path) -> None:
    path.chmod(0o1777)


THE_FILE, THE_AREA, THE_ROOT, ABOVE = range(4)
#: What is done, to which part of the path, and what is said of it; nothing if the file is used all the same.
CASES: list[tuple[Callable[[Path], None], int, str]] = [
    *[(do, THE_FILE, "is damaged") for do in (cut, flip, become_empty)],
    (become_a_pipe, THE_FILE, "not a plain file"),
    *[(become_a_link, part, "is a link, which is not followed") for part in (THE_FILE, THE_AREA, THE_ROOT)],
    *[(open_to_all, part, "can be written by others") for part in range(4)],
    *[(open_to_a_group, part, "can be written by others") for part in range(4)],
    *[(give_away, part, f"belongs to another user (uid {OTHER})") for part in range(4)],
    (become_like_tmp, THE_AREA, "can be written by others"),
    (become_like_tmp, THE_ROOT, ""),
    (become_like_tmp, ABOVE, ""),
    (become_a_link, ABOVE, ""),
    (become_a_foreign_link, ABOVE, f"belongs to another user (uid {OTHER})"),
]
NEEDS_ROOT = (give_away, become_a_foreign_link, open_to_a_group)


@pytest.mark.parametrize(
    ("do", "part", "said"),
    [
        pytest.param(*case, marks=[AS_ROOT] if case[0] in NEEDS_ROOT else [], id=f"{case[0].__name__}-{case[1]}")
        for case in CASES
    ],
)
def test_files_that_are_read_again(do: Callable[[Path], None], part: int, said: str, cache: Path) -> None:
    assert trust.get("area", "key") == (None, trust.MISSING)
    assert trust.put("area", "key", CONTENT) == ""
    assert trust.get("area", "key") == (CONTENT, "")
    path = [cache / "area" / "key", cache / "area", cache, cache.parent][part]
    do(path)
    found, why = trust.get("area", "key")
    if not said:
        assert (found, why) == (CONTENT, "")
        return
    assert found is None and why.startswith(str(path)) and said in why and "\n" not in why
    is_ours_to_mend = part == THE_FILE or (part == THE_AREA and do in (open_to_all, open_to_a_group, become_like_tmp))
    assert bool(trust.put("area", "key", b"again")) != is_ours_to_mend
    if is_ours_to_mend:
        assert trust.get("area", "key") == (b"again", "")


@AS_ROOT
def test_a_group_of_the_user_alone_is_the_user(cache: Path) -> None:
    """Many systems give each user a group, which can write what the user creates: not what is in the cache."""
    assert trust.put("area", "key", CONTENT) == ""
    cache.parent.chmod(0o775)
    assert cache.parent.stat().st_gid == 0 and trust.get("area", "key") == (CONTENT, "")
    cache.chmod(0o775)
    assert "can be written by others" in trust.get("area", "key")[1]


def test_folders_are_made_that_only_the_user_can_write(cache: Path) -> None:
    before = os.umask(0)
    try:
        assert trust.put("area", "key", CONTENT) == ""
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (cache.parent, cache, cache / "area", cache / "area/key")]
    assert modes == [0o755, 0o755, 0o755, 0o644]
    assert os.listdir(cache / "area") == ["key"]


def as_user(user: int, function: Callable[[], Any]) -> Any:
    """Call a function in a process of another user."""

    def call() -> Any:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        return function()

    return in_fork(call)


@AS_ROOT
def test_another_user_who_is_first(cache: Path) -> None:
    """A folder of another user is not used, even if its contents are whole, where all users may add folders."""
    cache.mkdir(parents=True)
    cache.chmod(0o1777)
    assert as_user(OTHER, lambda: trust.put("area", "key", b"theirs")) == ""
    assert as_user(OTHER, lambda: trust.get("area", "key")[0] == b"theirs") is True

    def use() -> list[str]:
        root = Path(os.environ["TORCHDEVICE_CACHE_DIR"])
        said = [trust.get("area", "key")[1], trust.put("area", "key", b"mine")]
        for provide in (
            lambda: trust.provide(root / "area" / "tool", b"mine", root, 0o755),
            lambda: trust.provide_link(root / "area" / "link", Path("/mine"), root),
        ):
            try:
                provide()
            except trust.Untrusted as error:
                said.append(str(error))
        return said

    for said in (use(), as_user(NOBODY, use)):
        assert said == [f"{cache}/area belongs to another user (uid {OTHER}), not to this user or root"] * 4
    assert (cache / "area" / "key").read_bytes().startswith(b"theirs")


@AS_ROOT
def test_files_of_root_are_trusted(cache: Path) -> None:
    assert trust.put("area", "key", CONTENT) == ""
    root = cache
    trust.provide(root / "area" / "tool", b"text", root, 0o755)

    def use() -> list[Any]:
        trust.provide(root / "area" / "tool", b"text", root, 0o755)
        return [trust.get("area", "key")[0] == CONTENT, trust.put("area", "new", b"")]

    found = as_user(NOBODY, use)
    assert found[0] is True and "Permission denied" in found[1]


@AS_ROOT
def test_folders_whose_owner_has_no_number_here(cache: Path) -> None:
    """In a container without root, / belongs to the number that stands for everyone outside."""
    cache.parent.mkdir()
    os.chown(cache.parent, OTHER, OTHER)

    def use() -> str:
        libc = ctypes.CDLL(None)
        libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: a process that changed its user may not write its own uid_map
        if libc.unshare(0x10000000):  # CLONE_NEWUSER
            return "no namespaces"
        Path("/proc/self/uid_map").write_text(f"1000 {OTHER} 1")
        assert os.stat("/").st_uid == NOBODY and os.geteuid() == 1000
        why = trust.put("area", "key", CONTENT)
        return why or str(trust.get("area", "key") == (CONTENT, ""))

    found = as_user(OTHER, use)
    if found == "no namespaces":
        pytest.skip("this kernel lets nobody make a user namespace")
    assert found == "True"


def test_a_file_is_provided_exactly(cache: Path) -> None:
    path, root = cache / "bin" / "tool", cache
    elsewhere = cache.parent / "precious"

    def is_right() -> bool:
        trust.provide(path, b"#!/bin/sh\n", root, 0o755)
        status = path.lstat()
        return (path.read_bytes(), stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)) == (
            b"#!/bin/sh\n",
            stat.S_IFREG,
            0o755,
        )

    assert is_right()
    made = path.stat().st_ino
    assert is_right() and path.stat().st_ino == made
    elsewhere.write_bytes(b"#!/bin/sh\n")
    for spoil in (
        lambda: path.write_bytes(b"#!/bin/sh\nother"),
        lambda: path.write_bytes(b""),
        lambda: path.chmod(0o644),
        lambda: path.chmod(0o777),
        lambda: (path.unlink(), path.symlink_to(elsewhere)),
        lambda: path.unlink(),
        lambda: path.parent.chmod(0o777),
    ):
        spoil()
        assert is_right()
    assert elsewhere.read_bytes() == b"#!/bin/sh\n" and elsewhere.stat().st_mode & 0o777 == 0o644


def test_a_link_is_provided_exactly(cache: Path) -> None:
    link, target = cache / "toolkit" / "include", Path("/usr/include")
    for spoil in (lambda: None, link.unlink, lambda: (link.unlink(), link.symlink_to("/tmp"))):
        if link.is_symlink():
            spoil()
        trust.provide_link(link, target, cache)
        assert os.readlink(link) == str(target) and os.listdir(link.parent) == ["include"]


def test_a_process_killed_while_it_writes(cache: Path) -> None:
    """Leave no incomplete file; the next writer removes the temporary file, but not one that is being written."""
    assert trust.put("area", "key", b"old") == ""
    forked = os.fork()
    if not forked:
        trust.os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[attr-defined]
        trust.put("area", "key", CONTENT)
        os._exit(0)
    assert os.waitpid(forked, 0)[1] == signal.SIGKILL
    left = [name for name in os.listdir(cache / "area") if name != "key"]
    assert len(left) == 1 and trust.get("area", "key") == (b"old", "")
    with open(cache / "area" / ".busy.part", "wb") as busy:
        trust.fcntl.flock(busy, trust.fcntl.LOCK_EX)  # type: ignore[attr-defined]
        assert trust.put("area", "other", CONTENT) == ""
        assert sorted(os.listdir(cache / "area")) == [".busy.part", "key", "other"]
    assert trust.put("area", "other", CONTENT) == ""
    assert sorted(os.listdir(cache / "area")) == ["key", "other"]
