"""The build under fire: whatever fails is one line that says what and what to do, and nothing is left running."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from harness import clean_environment

from native.compilers import Bench
from torchdevice_cuda.native import build, compilation, toolchain

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")


def refused() -> str:
    with pytest.raises(build.BuildError) as caught:
        build.library("cuda", say=lambda line: None)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 1000
    return message


#: What the compiler does, and what is said of that.
COMPILERS = {
    "exits with an error": (
        "echo x.cpp:1:2: error: it is broken >&2; echo compilation terminated. >&2; exit 3",
        ("compiling", "returned 3", "error: it is broken", "build.log"),
    ),
    "has several errors": (
        "echo In file included from errors.h:1; echo x.cpp:1: error: the first; echo y.cpp:2: error: another; exit 1",
        (": x.cpp:1: error: the first. All that the compiler said is in ",),
    ),
    "does not link": (
        "[ $what = library ] && { echo \"x.o: undefined reference to 'f'\"; echo collect2: error: ld failed; exit 1; }",
        ("linking failed", ": x.o: undefined reference to 'f'. All"),
    ),
    "says nothing": ("exit 1", ("compiling", "returned 1")),
    "makes nothing": ("exit 0", ("compiling", "made nothing")),
    "makes an empty file": ('> "$out"; exit 0', ("compiling", "made nothing")),
    "links nothing": ("[ $what = library ] && exit 0", ("linking failed", "made nothing")),
    "is killed": ("kill -s SEGV $$", ("signal 11", "build.log")),
    "prints a megabyte": (
        "head -c 2000000 /dev/zero | tr '\\0' x; echo; yes | head -c 100000; echo error: so; exit 1",
        ("returned 1", "error: so"),
    ),
    "prints no text": ("printf '\\377\\376 error \\200\\n'; exit 1", ("returned 1", "error")),
}


@pytest.mark.parametrize("how", COMPILERS)
def test_a_compiler_that(how: str, bench: Bench) -> None:
    behaviour, words = COMPILERS[how]
    bench.set(behaviour)
    message = refused()
    assert all(word in message for word in words), message
    (log,) = bench.cache.rglob(compilation.LOG)
    assert log.stat().st_size < 10_000_000 and "$ " in log.read_text()
    assert [path.name for path in log.parent.iterdir() if path.name not in ("lock", log.name)] == []
    # Nothing of it is in the way of a compiler that works.
    bench.set()
    assert not build.flaw(build.library("cuda", say=lambda line: None))


def test_a_compiler_that_cannot_be_started(bench: Bench) -> None:
    bench.compiler.write_text("#!/no/such/interpreter\n")
    assert str(bench.compiler) in refused()
    bench.compiler.unlink()
    assert "is not on the path" in refused() and "set CXX" in refused()


# ---- where the cache is ----------------------------------------------------------------------------------------------


def a_file(path: Path) -> str:
    (path / "file").write_text("")
    return str(path / "file")


def below_a_file(path: Path) -> str:
    return f"{a_file(path)}/cache"


def nowhere(path: Path) -> str:
    return "/proc/nowhere/cache"


def no_users(path: Path) -> str:
    return "~no-such-user/cache"


@pytest.mark.parametrize("where", [a_file, below_a_file, nowhere, no_users])
def test_a_cache_that_cannot_be(
    where: Callable[[Path], str], bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", where(tmp_path))
    assert "TORCHDEVICE_CACHE_DIR" in refused()
    with pytest.raises(build.BuildError):
        build.library("cuda", build=False)


@pytest.mark.parametrize(
    "name", ["with spaces", "with\nlines", "ünïcode", "quote'\"$HOME", "relative/below", os.fsdecode(b"\xff")]
)
def test_names_of_caches(name: str, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", name)
    path = build.library("cuda", say=lambda line: None)
    assert path.is_relative_to(tmp_path / name) and not build.flaw(path)
    monkeypatch.chdir("/")
    assert path.is_file()


def test_a_user_without_a_home_folder(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under a number: no HOME, and no entry in the system's list of users."""

    def unknown(uid: int) -> object:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("TORCHDEVICE_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    message = refused()
    assert "no home folder" in message and "set TORCHDEVICE_CACHE_DIR" in message
    assert not (tmp_path / "~").exists()
    monkeypatch.setenv("HOME", "/proc/nonexistent")
    assert "/proc/nonexistent" in refused()


def test_the_working_folder_is_gone(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", "cache")
    assert "TORCHDEVICE_CACHE_DIR='cache'" in refused()


def test_times_mean_nothing(bench: Bench) -> None:
    path = build.library("cuda", say=lambda line: None)
    for moment in (0, 2**33):
        os.utime(path, (moment, moment))
        os.utime(path.parent, (moment, moment))
        assert build.library("cuda") == path and bench.links == 1


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=755", "none", folder], check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield
    finally:
        # Lazily: what was ended may not have let go of its files yet.
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


@AS_ROOT
def test_a_full_disk(bench: Bench) -> None:
    """Too small for the sources, the objects, the log, the library: one of them each, as the disk gets larger."""
    bench.set('head -c 30000 /dev/zero > "$out"; exit $?')
    met, size, path = set(), 4, None
    while path is None:
        with small_disk(bench.cache, size):
            try:
                path = build.library("cuda", say=lambda line: None)
                assert not build.flaw(path)
            except build.BuildError as error:
                assert "No space left on device" in str(error) and "\n" not in str(error)
                met.add(str(error).split()[0])
                assert not list(bench.cache.rglob("*.so")) and not list(bench.cache.rglob(f"{compilation.SCRATCH}*"))
        size += 16
    # Python's own writing, the compiler's and the linker's.
    assert met == {"the", "compiling", "linking"}, met


# ---- builds that are ended -------------------------------------------------------------------------------------------

#: Starts a process of its own, says who they are, and never ends.
HANGING = 'echo $$ >> "$PIDS"; sleep 600 & echo $! >> "$PIDS"; wait'


def are_running(pids: Path) -> list[int]:
    found = []
    for line in pids.read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line), 0)
            state = Path(f"/proc/{line}/stat")
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(int(line))
    return found


def wait_until(holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + 30
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


def test_a_compiler_that_hangs(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    monkeypatch.setenv("PIDS", str(pids))
    monkeypatch.setattr(toolchain, "PATIENCE_S", 1.0)
    bench.set(HANGING)
    assert "did not end" in refused()
    assert len(pids.read_text().split()) >= 2
    assert wait_until(lambda: not are_running(pids)), are_running(pids)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_build_that_is_killed(ending: signal.Signals, bench: Bench, tmp_path: Path) -> None:
    """Its compilers end with it, what they made is not trusted, and the next build clears it away."""
    pids = tmp_path / "pids"
    environment = {**clean_environment(), **bench.environment(HANGING), "PIDS": str(pids)}
    command = [sys.executable, "-m", "torchdevice_cuda.native.build"]
    builder = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) >= 2)
        assert are_running(pids)
        builder.send_signal(ending)
        assert builder.wait(30)
        assert wait_until(lambda: not are_running(pids)), are_running(pids)
    finally:
        builder.kill()
        builder.wait()
    left = list(bench.cache.rglob(f"{compilation.SCRATCH}*"))
    assert bool(left) == (ending != signal.SIGINT) and not list(bench.cache.glob("*/*.so"))
    bench.set()
    assert not build.flaw(build.library("cuda", say=lambda line: None)) and bench.links == 1
    assert not list(bench.cache.rglob(f"{compilation.SCRATCH}*"))


def test_the_first_error_ends_the_others(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    pids.write_text("")
    monkeypatch.setenv("PIDS", str(pids))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    # The first unit hangs, the second fails.
    bench.set(f"case $out in */operators.o) {HANGING};; *) sleep 0.5; echo error: no; exit 1;; esac")
    started = time.monotonic()
    assert "error: no" in refused() and time.monotonic() - started < 30
    assert wait_until(lambda: not are_running(pids)), are_running(pids)


def test_an_interruption_while_compilers_are_started(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interruption comes anywhere: here after the first of them, before the build waits for any."""
    pids = tmp_path / "pids"
    monkeypatch.setenv("PIDS", str(pids))
    monkeypatch.setattr(toolchain, "PATIENCE_S", 20.0)
    bench.set(HANGING)
    submit = ThreadPoolExecutor.submit

    def interrupted(pool: ThreadPoolExecutor, *call: Any) -> Any:
        if pids.exists():
            raise KeyboardInterrupt
        started = submit(pool, *call)
        assert wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        return started

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build.library("cuda", say=lambda line: None)
    assert time.monotonic() - began < 15
    assert wait_until(lambda: not are_running(pids)), are_running(pids)


def test_no_threads_are_left(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert "can't start new thread" in refused()


def test_a_package_is_missing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "filelock", None)
    message = refused()
    assert "not installed" in message and "filelock" in message
