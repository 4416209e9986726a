"""Machines that lack room, file systems that can be written, or a compiler: programs run, or say what is missing.

How builds fail is in ``test_build_failures.py``; here the library is built, or cannot be.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import CPU, VIRTUAL, Finished, clean_environment, in_child, run
from harness.places import must_be_ready

from torchdevice_cuda.native import build

PROGRAMS = Path(__file__).with_name("programs")
OURS = (sys.executable, "-m", "torchdevice_cuda")
#: What a kernel's program prints that works.
COMPUTED = "[1.0, 1.0, 1.0, 1.0]\n"
#: In a shell of a private mount namespace: memory that is full, and folders that cannot be written.
FULL = 'mount -t tmpfs -o size={size}k none "{folder}" && {{ cat /dev/zero > "{folder}/full" 2>/dev/null; :; }}'
READ_ONLY = 'mount -t tmpfs -o ro none "{folder}"'
WITH_LIBRARY = 'mount -t tmpfs -o size={size}k none "{folder}" && cp -r "{library}" "{folder}/"'


@functools.cache
def can_mount() -> bool:
    """Return whether this user has mount namespaces and may mount in them."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    words = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def mounting() -> None:
    """For tests that mount file systems, which nobody else sees."""
    if not can_mount():
        pytest.skip("file systems cannot be mounted here")


def library_folder() -> Path:
    must_be_ready(VIRTUAL)
    return Path(build.library("cuda")).parent


def run_mounted(mounts: list[str], *words: str | Path, **environment: str) -> Finished:
    """Run a program where these file systems are mounted."""
    script = " && ".join([*mounts, 'exec "$@"'])
    command = ["unshare", "--mount", "sh", "-c", script, "sh", *OURS, *map(str, words)]
    return run(command, environment=clean_environment(**environment), timeout=200)


# ------------------------------------------------------------------------------------------ room
@pytest.mark.native
@pytest.mark.slow
def test_full_shared_memory(mounting: None) -> None:
    """Memory of the device that is shared needs none of it; nobody is told what the process holds."""
    words = ("--driver", "virtual", "--log-level", "INFO", PROGRAMS / "hostile.py", "sends")
    done = run_mounted([FULL.format(folder="/dev/shm", size=16)], *words)
    assert (done.status, done.out) == (0, "trained\nsent 1000.0\n"), done
    assert "other processes are not told of the GPUs that this one uses: [Errno 28]" in done.err


@pytest.mark.native
@pytest.mark.slow
def test_full_folder_for_temporary_files(mounting: None, tmp_path: Path) -> None:
    mounts = [FULL.format(folder=tmp_path, size=16)]
    here = {"TMPDIR": str(tmp_path), "TORCHDEVICE_CACHE_DIR": str(library_folder().parent)}
    done = run_mounted(mounts, "--driver", "virtual", PROGRAMS / "hostile.py", "compiles", "unlike any other", **here)
    assert done.out.startswith("trained\nRuntimeError: Kernel compilation failed:\n"), done
    assert "No space left on device" in done.out


@pytest.mark.native
def test_full_cache(mounting: None, tmp_path: Path) -> None:
    """Compiled kernels are not cached, but work."""
    folder = library_folder()
    size = sum(path.stat().st_size for path in folder.iterdir()) // 1024 + 256
    filled = FULL.format(folder=tmp_path, size=size).partition("&&")[2]
    mounts = [WITH_LIBRARY.format(folder=tmp_path, size=size, library=folder), filled]
    here = {"TORCHDEVICE_CACHE_DIR": str(tmp_path)}
    done = run_mounted(mounts, "--driver", "virtual", PROGRAMS / "hostile.py", "compiles", **here)
    assert (done.status, done.out) == (0, f"trained\n{COMPUTED}"), done


def agree_without_room(folder: str) -> bool:
    import torch  # noqa: F401  (a process group is made after it is imported)

    from torchdevice_cuda.distributed import agreement
    from torchdevice_cuda.settings import folders

    class Owner:
        pass

    folders._MEMORY = Path(folder)
    owner = Owner()
    memory, _ = agreement._made(1 << 20, owner)
    if memory is not None:
        memory[:] = bytes(1 << 20)
    return memory is None


def test_ranks_without_shared_memory(mounting: None, tmp_path: Path) -> None:
    """They do without what they would share; a write into memory that is not there would be a SIGBUS."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    try:
        assert in_child(agree_without_room, CPU, str(tmp_path))
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


# ------------------------------------------------------------------------------------------ what cannot be written
@pytest.mark.parametrize(
    "driver", [pytest.param("virtual", marks=pytest.mark.native), pytest.param("cpu", marks=pytest.mark.slow)]
)
def test_read_only_file_systems(mounting: None, tmp_path: Path, driver: str) -> None:
    names = ("cache", "home", "tmp")
    for name in names:
        (tmp_path / name).mkdir()
    cache, home, temporary = (tmp_path / name for name in names)
    mounts = [
        WITH_LIBRARY.format(folder=cache, size=1 << 16, library=library_folder()),
        f'mount -o remount,ro "{cache}"',
        *(READ_ONLY.format(folder=folder) for folder in (home, temporary, "/dev/shm")),
    ]
    here = {"TORCHDEVICE_CACHE_DIR": str(cache), "HOME": str(home), "TMPDIR": str(temporary)}
    done = run_mounted(mounts, "--driver", driver, PROGRAMS / "hostile.py", **here)
    assert done == Finished(0, "trained\n", "")


@pytest.mark.native
def test_read_only_cache_without_a_library(mounting: None, no_gpu: None, tmp_path: Path) -> None:
    mounts, here = [READ_ONLY.format(folder=tmp_path)], {"TORCHDEVICE_CACHE_DIR": str(tmp_path)}
    named = run_mounted(mounts, "--driver", "virtual", PROGRAMS / "hostile.py", **here)
    assert (named.status, named.out) == (2, "")
    assert named.err.startswith("torchdevice-cuda: driver 'virtual' was asked for, but ")
    auto = run_mounted(mounts, PROGRAMS / "hostile.py", **here)
    assert (auto.status, auto.out) == (0, "trained\n")
    assert auto.err.startswith("torchdevice_cuda: using the cpu driver, not virtual: ")
    for done in (named, auto):
        assert done.err.count("\n") == 1, done
        assert "Read-only file system" in done.err and "TORCHDEVICE_CACHE_DIR names another" in done.err


# ------------------------------------------------------------------------------------------ no compiler
@pytest.fixture
def without_compiler(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose path has a shell and ninja."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "ninja", "env", "uname"):
        if found := shutil.which(name):
            (folder / name).symlink_to(found)
    caches = {name: str(tmp_path / name) for name in ("TORCH_EXTENSIONS_DIR", "TORCHINDUCTOR_CACHE_DIR")}
    return {"PATH": str(folder), **caches}


NEEDED = (
    "nvcc: a C++17 compiler is needed to compile CUDA kernels, and c++ cannot be started (No such file or directory). "
)


@pytest.mark.parametrize("driver", [pytest.param("virtual", marks=[pytest.mark.native, pytest.mark.slow]), "cpu"])
def test_kernels_need_a_compiler(driver: str, without_compiler: dict[str, str]) -> None:
    """The device is built, and works; a kernel is refused in torch's words, and ours."""
    words = ("--driver", driver, PROGRAMS / "hostile.py", "compiles", "never compiled before")
    done = run([*OURS, *map(str, words)], environment=clean_environment(**without_compiler), timeout=200)
    assert done.out.startswith(f"trained\nRuntimeError: Kernel compilation failed:\n{NEEDED}"), done
    assert done.status == 0


def test_nvcc_needs_a_compiler(without_compiler: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "a.cu"
    source.write_text("__global__ void k() {}\n")
    command = [sys.executable, "-m", "torchdevice_cuda.cuda_cpp.nvcc", "-c", str(source), "-o", str(tmp_path / "a.o")]
    done = run(command, environment=clean_environment(**without_compiler))
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(NEEDED) and done.err.count("\n") == 1


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize("what, words", [("extends", NEEDED), ("inductor", "No working C++ compiler found")])
def test_other_features_need_a_compiler(what: str, words: str, without_compiler: dict[str, str]) -> None:
    if what == "extends" and not os.path.lexists(f"{without_compiler['PATH']}/ninja"):
        pytest.skip("ninja is not installed")
    command = [*OURS, "--driver", "virtual", str(PROGRAMS / "hostile.py"), what]
    done = run(command, environment=clean_environment(**without_compiler), timeout=200)
    assert words in done.out, done
