"""Trust in libraries: only whole ones of the user or of root, in folders that nobody else writes, and no links."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import filelock
import pytest
from harness import STOCK, child

from native.compilers import C_COMPILER, Bench, damage, temporary
from torchdevice_cuda.native import build, compilation, loading

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away, and be someone else")
WITH_C = pytest.mark.skipif(C_COMPILER is None, reason="there is no C compiler")
NOBODY = 65534


def quietly(**how: bool) -> Path:
    return build.library("cuda", say=lambda line: None, **how)


def give_away(path: Path) -> None:
    os.chown(path, 12345, -1)


def become_a_link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def add(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def become_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def open_to_all(path: Path) -> None:
    path.chmod(0o777)


def open_to_a_group(path: Path) -> None:
    path.chmod(0o775)


#: What is done to the library, what is said of it.
OF_THE_LIBRARY: dict[Callable[[Path], None], str] = {
    damage: "damaged",
    cut: "damaged",
    add: "damaged",
    become_a_link: "is a link",
    become_a_pipe: "not a plain file",
    open_to_all: "written by others",
    open_to_a_group: "written by others",
    give_away: "another user",
}


@pytest.mark.parametrize("do", [pytest.param(f, marks=[AS_ROOT] if f is give_away else []) for f in OF_THE_LIBRARY])
def test_a_library_that_is_not_to_be_trusted_is_built_again(do: Callable[[Path], None], bench: Bench) -> None:
    path = quietly()
    do(path)
    assert OF_THE_LIBRARY[do] in build.flaw(path)
    with pytest.raises(build.BuildError, match=OF_THE_LIBRARY[do]):
        quietly(build=False)
    said: list[str] = []
    assert build.library("cuda", say=said.append) == path and bench.links == 2
    assert OF_THE_LIBRARY[do] in said[0]
    assert not build.flaw(path) and quietly(build=False) == path


def test_the_mode_of_our_folder_is_put_right(bench: Bench) -> None:
    path = quietly()
    path.parent.chmod(0o777)
    assert "written by others" in build.flaw(path)
    assert quietly() == path and not build.flaw(path) and bench.links == 1
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


@pytest.mark.parametrize("part", ["root", "folder"])
@pytest.mark.parametrize("do", [become_a_link, give_away, open_to_all, open_to_a_group])
def test_a_folder_that_is_not_to_be_trusted(do: Callable[[Path], None], part: str, bench: Bench) -> None:
    """A folder of ours with a wrong mode is put right; the rest is the user's to decide."""
    if do is give_away and os.geteuid():
        pytest.skip("only root can give files away")
    path = quietly()
    do(bench.cache if part == "root" else path.parent)
    assert OF_THE_LIBRARY[do] in build.flaw(path)
    with pytest.raises(build.BuildError, match=OF_THE_LIBRARY[do]):
        quietly(build=False)
    if part == "folder" and do in (open_to_all, open_to_a_group):
        assert quietly() == path
        return
    with pytest.raises(build.BuildError, match=rf"{OF_THE_LIBRARY[do]}.*TORCHDEVICE_CACHE_DIR"):
        quietly()


def test_a_cache_in_a_folder_like_tmp(bench: Bench) -> None:
    """All may write there, but only owners rename and remove: what is ours stays, what is others' is seen to be."""
    bench.cache.mkdir()
    bench.cache.chmod(0o1777)
    path = quietly()
    assert not build.flaw(path) and stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    bench.cache.chmod(0o777)
    assert "written by others" in build.flaw(path)


@pytest.mark.parametrize("name", ["lock", compilation.LOG])
def test_no_link_is_written_through(name: str, bench: Bench, tmp_path: Path) -> None:
    path = quietly()
    precious = tmp_path / "precious"
    precious.write_text("precious")
    link = path.with_name(name)
    link.unlink()
    link.symlink_to(precious)
    path.unlink()
    if name == "lock":
        with pytest.raises(build.BuildError, match="lock"):
            quietly()
    else:
        assert quietly() == path and not link.is_symlink()
    assert precious.read_text() == "precious"


def test_leftovers_of_killed_builds_are_removed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, and under another key, which may never be built again. Not where a build goes on, nor what is not ours."""
    folders = {}
    for flag in ("-DOLD", "-DBUSY", ""):
        monkeypatch.setenv("TORCHDEVICE_NATIVE_CXXFLAGS", flag)
        folders[flag] = quietly().parent
    left = {flag: folder / f"{compilation.SCRATCH}left" for flag, folder in folders.items()}
    for path in left.values():
        (path / "within").mkdir(parents=True)
    other = bench.cache / "cuda-project" / f"{compilation.SCRATCH}mine"
    other.mkdir(parents=True)
    with filelock.FileLock(folders["-DBUSY"] / "lock"):
        quietly(force=True)
    assert [flag for flag, path in left.items() if path.exists()] == ["-DBUSY"]
    assert set(bench.cache.rglob(f"{compilation.SCRATCH}*")) == {left["-DBUSY"], other}


# ---- loading -------------------------------------------------------------------------------------------------------


def load(**how: bool) -> Any:
    """Loads again, as another process would."""
    sys.modules.pop("_hostdevice_cuda", None)
    return build.load("cuda", **how)


def refused(**how: bool) -> str:
    with pytest.raises(build.BuildError) as caught:
        load(**how)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@WITH_C
@child(STOCK.when("after"))
def test_a_damaged_library_is_not_loaded() -> None:
    with temporary() as bench:
        path = quietly()
        module = load()
        assert module.name == "whole" and module.__file__ == module.__spec__.origin == str(path)
        damage(path)
        assert "damaged" in refused(build=False)
        assert load().name == "whole" and bench.links == 2


@WITH_C
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere an open file cannot be loaded")
@child(STOCK.when("after"))
def test_the_file_that_was_checked_is_the_one_that_is_loaded() -> None:
    original = loading.load

    def replacing(name: str, path: Path, opened: int) -> Any:
        path.unlink()
        path.write_bytes(b"another's")
        return original(name, path, opened)

    with temporary() as bench:
        path = quietly()
        loading.load = replacing
        try:
            assert load().name == "whole"
        finally:
            loading.load = original
        assert path.read_bytes() == b"another's" and bench.links == 1


#: What the compiler does, the module, and what is said of that.
NO_GOOD = {
    "garbage": ('[ $what = library ] && { head -c 9000 /dev/zero > "$out"; exit 0; }', "whole", "ELF|too short|mach-o"),
    "symbol": ("", "void absent(void); void PyInit__hostdevice_cuda(void) { absent(); }", "absent"),
    "no module": ("", "int nothing;", "PyInit__hostdevice_cuda"),
    "raising": (
        "",
        "#include <Python.h>\nPyObject* PyInit__hostdevice_cuda(void) "
        '{ PyErr_SetString(PyExc_ValueError, "not today"); return NULL; }',
        "not today",
    ),
}


@WITH_C
@child(STOCK.when("after"))
def test_one_that_does_not_load_is_built_again_once() -> None:
    """Rebuild once a complete library that was linked against another installation; then the compiler builds no better
    one."""
    for behaviour, module, why in NO_GOOD.values():
        with temporary(behaviour, module) as bench:
            path = quietly()
            message = refused(build=False)
            assert re.search(f"{re.escape(str(path))} does not load: .*({why})", message), message
            bench.set(module="whole")
            assert load().name == "whole" and bench.links == 2
    with temporary(module="int nothing;") as bench:
        quietly()
        for _ in range(2):
            assert "does not load" in refused() and bench.links == 2  # one more build, and from then on none
    with temporary(module="int nothing;") as bench:
        for _ in range(2):
            assert "does not load" in refused() and bench.links == 1  # the same compiler would make the same
        bench.set(module="whole")
        quietly(force=True)
        assert load().name == "whole"


@WITH_C
@child(STOCK.when("after"))
def test_one_that_does_not_load_and_cannot_be_built() -> None:
    with temporary(module="int nothing;") as bench:
        path = quietly()
        os.environ["CXX"] = "no-such-compiler"
        for why in ("does not load: dynamic module", "is damaged"):
            message = refused()
            assert message.startswith(f"{path} {why}"), message
            assert message.count(str(path)) == 1 and "cannot be built again: a C++17 compiler" in message
            damage(path)
        assert bench.links == 1


@AS_ROOT
@WITH_C
@child(STOCK.when("after"))
def test_a_cache_of_root_serves_other_users() -> None:
    """An image is built by root and run by someone else, who can read the cache and not write it."""
    import torch

    with temporary():
        path = quietly()
        os.seteuid(NOBODY)
        try:
            if not os.access(torch.__file__, os.R_OK, effective_ids=True):
                return  # an installation of torch for root alone has no other users to serve
            assert load().name == "whole" and not build.flaw(path)
            os.environ["TORCHDEVICE_NATIVE_CXXFLAGS"] = "-DOTHER"
            assert "Permission denied" in refused()
        finally:
            os.seteuid(0)
