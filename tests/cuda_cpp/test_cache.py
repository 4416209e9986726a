"""Kernels in the cache: whole ones of the user or of root are used, all others are compiled again and say why."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import CPU, in_child, in_fork, python

from torchdevice_cuda import trust
from torchdevice_cuda.cuda_cpp import compiled, toolkit
from torchdevice_cuda.native import kernel_libraries
from torchdevice_cuda.nvidia.smi import placing

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be someone else")
OTHER = 12345
SOURCE = 'extern "C" __global__ void plus(int* x) { x[threadIdx.x] += %d; }'


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a cache that all may add to, as /tmp."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        folder = Path(name) / "cache"
        folder.mkdir()
        folder.chmod(0o1777)
        monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", str(folder))
        monkeypatch.setattr(tempfile, "tempdir", name)
        kernel_libraries.explain.cache_clear()
        yield folder


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the kernels that were compiled, by a compiler that is done at once."""
    done: list[str] = []

    def build(folder: Path, source: str, *_: Any) -> bytes:
        done.append(source)
        return f"built {len(done)}".encode()

    monkeypatch.setattr(compiled, "_build", build)
    return done


def compile_one() -> bytes:
    return compiled.compile_library(SOURCE % 1, "plus.cu", [], [])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1] ^= 0xFF
    path.write_bytes(content)


def become_empty(path: Path) -> None:
    path.write_bytes(b"")


def open_to_all(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("do", [cut, flip, become_empty, open_to_all])
def test_a_damaged_kernel_is_compiled_again_once(
    do: Callable[[Path], None], cache: Path, builds: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert [compile_one(), compile_one()] == [b"built 1", b"built 1"] and capfd.readouterr().err == ""
    (path,) = (cache / "kernels").iterdir()
    do(path)
    assert [compile_one(), compile_one()] == [b"built 2", b"built 2"] and len(builds) == 2
    said = capfd.readouterr().err.splitlines()
    why = "can be written by others" if do is open_to_all else "is damaged"
    assert len(said) == 1 and said[0].startswith("torchdevice_cuda: ") and f"{path} {why}" in said[0]


def as_other(function: Callable[[], Any]) -> Any:
    """Call a function in a process of another user."""

    def call() -> Any:
        os.setgroups([])
        os.setuid(OTHER)
        return function()

    return in_fork(call)


@AS_ROOT
def test_another_users_kernel_is_not_loaded(cache: Path, builds: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """It is whole, and has the name that is looked for."""
    compile_one()
    (path,) = (cache / "kernels").iterdir()
    theirs = b"theirs"
    shutil.rmtree(path.parent)

    def plant() -> None:
        path.parent.mkdir()
        path.write_bytes(theirs + trust.seal(theirs))

    as_other(plant)
    assert path.stat().st_uid == OTHER
    assert [compile_one(), compile_one()] == [b"built 2", b"built 3"]
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1 and "TORCHDEVICE_CACHE_DIR" in said[0]
    assert f"{path.parent} belongs to another user (uid {OTHER})" in said[0]


@AS_ROOT
def test_another_users_compiler_is_not_used(cache: Path) -> None:
    home = toolkit.provide("13.0")
    assert toolkit.provide("13.0") == home
    shutil.rmtree(home)

    def plant() -> None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "nvcc").write_text("#!/bin/sh\necho theirs\n")
        (home / "bin" / "nvcc").chmod(0o755)
        (home / "complete").touch()

    as_other(plant)
    with pytest.raises(OSError, match=rf"^{home} belongs to another user \(uid {OTHER}\)"):
        toolkit.provide("13.0")


def test_a_toolkit_that_was_changed_is_put_right(cache: Path) -> None:
    home = toolkit.provide("13.0")
    nvcc, archive, include = home / "bin" / "nvcc", home / "lib64" / "libcudart.a", home / "include"
    wanted = nvcc.read_bytes(), archive.read_bytes(), os.readlink(include)
    nvcc.write_text("#!/bin/sh\necho other\n")
    archive.write_bytes(b"other")
    include.unlink()
    include.symlink_to("/tmp")
    assert toolkit.provide("13.0") == home
    assert (nvcc.read_bytes(), archive.read_bytes(), os.readlink(include)) == wanted and os.access(nvcc, os.X_OK)


@AS_ROOT
def test_another_users_nvidia_smi_is_not_put_on_the_path(cache: Path) -> None:
    folder = placing.folder()
    shutil.rmtree(cache / "bin")

    def plant() -> None:
        folder.mkdir(parents=True)
        (folder / "nvidia-smi").write_text("#!/bin/sh\necho theirs\n")
        (folder / "nvidia-smi").chmod(0o755)

    as_other(plant)
    command = ["-m", "torchdevice_cuda", "--driver", "cpu", "--with-nvidia-smi", "-c"]
    done = python(*command, "import os; os.system('nvidia-smi')", check=False)
    assert done.status == 2 and "theirs" not in done.out
    (said,) = done.err.splitlines()
    assert f"{cache}/bin belongs to another user (uid {OTHER})" in said and "TORCHDEVICE_CACHE_DIR" in said


def test_an_nvidia_smi_that_was_changed_is_put_right(cache: Path) -> None:
    path = placing.folder() / "nvidia-smi"
    wanted = path.read_bytes()
    path.write_text("#!/bin/sh\necho other\n")
    placing.folder()
    assert path.read_bytes() == wanted


def launch(driver: compiled.Runtime, library: bytes) -> int:
    """Launch a kernel on 1 and return its result."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert driver.cuModuleLoadData(ctypes.byref(module), library) == 0
    assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"plus") == 0
    number = ctypes.c_int(1)
    pointer = ctypes.c_void_p(ctypes.addressof(number))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, arguments, None) == 0
    return number.value


def test_the_library_that_is_loaded_is_the_one_that_was_written(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder may be replaced meanwhile; no file is left over, and no library is confused with another."""
    made = [compiled.compile_library(SOURCE % k, "plus.cu", [], []) for k in (1, 2)]
    original, moved = ctypes.CDLL, []

    def replacing(path: str) -> Any:
        for folder in cache.parent.glob("torchdevice-kernels-*"):
            moved.append(folder.rename(cache.parent / f"moved-{len(moved)}"))
            folder.mkdir()
            for file in moved[-1].iterdir():
                (folder / file.name).write_bytes(b"theirs")
        return original(path)

    driver, opened = compiled.Runtime(), len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    if opened:
        monkeypatch.setattr(ctypes, "CDLL", replacing)
    assert [launch(driver, library) for library in made] == [2, 3]
    if opened:
        assert len(moved) == 2 and len(os.listdir("/proc/self/fd")) == opened
    assert not list(cache.parent.glob("torchdevice-kernels-*"))


def test_a_kernel_that_does_not_load_is_compiled_again_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is whole, and was linked where something else is installed."""
    good = compiled.compile_library(SOURCE % 5, "plus.cu", [], [])
    made = [b"no library", good]
    monkeypatch.setattr(compiled, "_build", lambda *_: made.pop(0))
    assert compile_one() == b"no library" == compile_one()
    assert launch(compiled.Runtime(), b"no library") == 6
    assert compile_one() == good and not made
    said = capfd.readouterr().err.splitlines()
    assert len(said) == 1 and "it does not load" in said[0]
    module = ctypes.c_void_p()
    assert compiled.Runtime().cuModuleLoadData(ctypes.byref(module), b"no library") == 209


def test_a_kernel_for_another_processor_is_not_used(
    cache: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compile_one() == b"built 1"
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "another")  # which counts as another
    assert compile_one() == b"built 2"


def damaged_on_disk() -> list[int]:
    import torch

    def run() -> int:
        kernel = torch.cuda._compile_kernel(SOURCE % 3, "plus")
        x = torch.ones(1, dtype=torch.int32, device="cuda")
        kernel(grid=(1, 1, 1), block=(1, 1, 1), args=[x])
        return int(x.item())

    found = [run()]
    (path,) = Path(os.environ["TORCHDEVICE_CACHE_DIR"], "kernels").iterdir()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    return [*found, run(), run()]


def test_a_program_with_a_truncated_kernel_goes_on(tmp_path: Path) -> None:
    place = CPU.within(TORCHDEVICE_CACHE_DIR=str(tmp_path))
    assert in_child(damaged_on_disk, place) == [4, 4, 4]
