"""The doctor's findings on a machine: each fault is planted, and reported with its advice."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import torchdevice_cuda
from torchdevice_cuda.doctor import packages
from torchdevice_cuda.doctor.asking import Advised, NotHereError, Question
from torchdevice_cuda.doctor.checks import installation
from torchdevice_cuda.doctor.results import FAILED, NOTED
from torchdevice_cuda.native import build, compilation, inventory, toolchain, wheel

Patch = pytest.MonkeyPatch
OURS = torchdevice_cuda.__version__


@pytest.fixture(autouse=True)
def look_anew(tmp_path: Path, monkeypatch: Patch) -> Iterator[None]:
    """Put an empty folder first on the path, and forget the installed packages."""
    monkeypatch.syspath_prepend(str(tmp_path))
    packages._installed.cache_clear()
    yield
    packages._installed.cache_clear()


def plant(folder: Path, name: str, version: str, *lines: str, files: str = "") -> None:
    """An installed distribution, as far as metadata go."""
    made = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    made.mkdir()
    (made / "METADATA").write_text(
        "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, ""])
    )
    (made / "RECORD").write_text(files)


def _another_torch(folder: Path, patch: Patch) -> None:
    plant(folder, "torch", "2.13.0")


def _torch_of(version: str) -> Callable[[Path, Patch], None]:
    def apply(folder: Path, patch: Patch) -> None:
        patch.setattr(toolchain, "installed_torch", lambda: toolchain.Torch(folder, version, True))

    return apply


def _no_compiler(folder: Path, patch: Patch) -> None:
    patch.setenv("CXX", "no-such-compiler")
    patch.setenv("TORCHDEVICE_CACHE_DIR", str(folder / "cache"))


def _empty_cache(folder: Path, patch: Patch) -> None:
    patch.setenv("TORCHDEVICE_CACHE_DIR", str(folder / "cache"))
    patch.setattr(build, "has_compiler", lambda: True)


def _wheel_for_another_torch(folder: Path, patch: Patch) -> None:
    """Beside a library that was compiled here."""
    patch.setenv("TORCHDEVICE_CACHE_DIR", str(folder / "cache"))
    patch.setattr(compilation, "compile_parts", lambda kind, wanted, *words: words[2][wanted[0]].write_bytes(b"made"))
    path = build.whereabouts("cuda").path
    path.parent.mkdir(parents=True)
    (folder / "library").write_bytes(b"made")
    from torchdevice_cuda.native import sealing

    sealing.seal_library(folder / "library", path)
    other = folder / "cuda-00000000000000000000"
    other.mkdir()
    (other / path.name).write_bytes(b"another")
    made = wheel.write(folder, OURS, "2.5.0", {"cuda": other / path.name})
    shutil.unpack_archive(made, folder, "zip")


def _broken_compiler(folder: Path, patch: Patch) -> None:
    script = folder / "c++"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    patch.setenv("CXX", str(script))


def _old_libraries(folder: Path, patch: Patch) -> None:
    patch.setenv("TORCHDEVICE_CACHE_DIR", str(folder / "cache"))
    for number in range(2):
        old = folder / "cache" / f"cuda-{number:020x}"
        old.mkdir(parents=True)
        with open(old / "library.so", "wb") as file:
            file.truncate(80 << 20)


def _closed_cache(folder: Path, patch: Patch) -> None:
    patch.setenv("TORCHDEVICE_CACHE_DIR", str(folder / "cache"))
    patch.setattr(os, "access", lambda path, mode: False)


def _full_disk(folder: Path, patch: Patch) -> None:
    patch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, 3 << 20))  # type: ignore[attr-defined]


def _old_shim(folder: Path, patch: Patch) -> None:
    plant(folder, "torchdevice-cuda-shim", "0.0.1")


def _shim_without_pth(folder: Path, patch: Patch) -> None:
    plant(folder, "torchdevice-cuda-shim", OURS)


def _shim_elsewhere(folder: Path, patch: Patch) -> None:
    """As ``pip install --target`` leaves it."""
    plant(folder, "torchdevice-cuda-shim", OURS)
    (folder / "torchdevice_cuda_shim.pth").touch()


def _shadowed(folder: Path, patch: Patch) -> None:
    (folder / "sitecustomize.py").touch()
    patch.setattr(sys, "path", [*sys.path, str(Path(__file__).parents[2] / "shim")])


def _backend(folder: Path, patch: Patch) -> None:
    plant(folder, "torch-other", "1")
    (folder / "torch_other-1.dist-info" / "entry_points.txt").write_text("[torch.backends]\nother = torch_other:load\n")


#: The question, what is planted, what is found, and the advice.
WRONG: dict[str, tuple[Question, Callable[[Path, Patch], None], str, str]] = {
    "two torches": (installation.torch_build, _another_torch, "torch is installed 2 times: ", "uninstall all but one"),
    "an old torch": (installation.torch_build, _torch_of("2.5.1"), "torch 2.5.1 is older than 2.6", '"torch>=2.6"'),
    "a new torch": (installation.torch_build, _torch_of("2.99.0"), "torch 2.99.0 is newer than", '"torch<='),
    "nothing to compile with": (
        installation.compiled_part,
        _no_compiler,
        "there is no compiler",
        "a wheel of torchdevice-cuda-native",
    ),
    "not compiled yet": (installation.compiled_part, _empty_cache, "is not there yet (missing)", "--build"),
    "a wheel that does not fit": (
        installation.compiled_part,
        _wheel_for_another_torch,
        f"torchdevice-cuda-native {OURS} is for torch 2.5.0",
        "--build --wheel-dir makes one that fits",
    ),
    "no compiler": (installation.compiler, _no_compiler, "there is no C++ compiler", "Install one"),
    "a broken compiler": (installation.compiler, _broken_compiler, "--version fails with status 3", "set CXX"),
    "old libraries": (
        installation.cache,
        _old_libraries,
        "holds 2 libraries for other versions, 160 MiB",
        "-exec rm -r",
    ),
    "a cache of another's": (installation.cache, _closed_cache, "cannot be written", "set TORCHDEVICE_CACHE_DIR"),
    "a full disk": (installation.cache, _full_disk, "has 3 MiB left", "make room"),
    "an old shim": (installation.shim, _old_shim, "torchdevice-cuda-shim 0.0.1 is beside", f"shim=={OURS}"),
    "a shim without .pth": (
        installation.shim,
        _shim_without_pth,
        "torchdevice_cuda_shim.pth is gone",
        "--force-reinstall",
    ),
    "a shim elsewhere": (installation.shim, _shim_elsewhere, "is no folder whose .pth files python reads", "into the"),
    "a variable and no shim": (
        installation.shim,
        lambda folder, patch: patch.setenv("TORCHDEVICE_AUTO", "1"),
        "TORCHDEVICE_AUTO is set, and the shim that reads it is not installed",
        "pip install torchdevice-cuda-shim",
    ),
    "another sitecustomize": (
        installation.sitecustomize,
        _shadowed,
        "which therefore never runs",
        "first in PYTHONPATH",
    ),
    "a rival": (
        installation.other_devices,
        lambda folder, patch: plant(folder, "Torch_NPU", "2.1"),
        "installed beside us: torch-npu (sends torch.cuda to an NPU)",
        "pip uninstall torch-npu",
    ),
    "a backend": (
        installation.other_devices,
        _backend,
        "torch loads by itself: other (torch_other:load)",
        "AUTOLOAD=0",
    ),
    "torchvision": (
        installation.companions,
        lambda folder, patch: plant(folder, "torchvision", "0.1", "Requires-Dist: torch (==2.1.0)"),
        "torchvision 0.1 is for torch 2.1.0, not ",
        "pip install --upgrade torch==",
    ),
    "no NumPy": (
        installation.numpy,
        lambda folder, patch: patch.delitem(packages._installed(), "numpy"),
        "NumPy is not installed",
        "pip install numpy",
    ),
    "nvidia": (
        installation.nvidia_libraries,
        lambda folder, patch: plant(folder, "nvidia-cublas-cu12", "12", files="a.so,sha256=x,2500000000\n"),
        "1 packages of NVIDIA's libraries, 2.5 GB, and no GPU",
        "whl/cpu",
    ),
    "all hidden": (
        installation.variables,
        lambda folder, patch: patch.setenv("CUDA_VISIBLE_DEVICES", ""),
        "CUDA_VISIBLE_DEVICES hides every GPU",
        "unset CUDA_VISIBLE_DEVICES",
    ),
}
FAILS = ("an old torch",)


@pytest.mark.parametrize("case", WRONG)
def test_a_fault_is_named_with_its_advice(case: str, tmp_path: Path, monkeypatch: Patch) -> None:
    asked, wrong, found, advice = WRONG[case]
    if case == "nvidia":
        monkeypatch.setattr(installation, "has_nvidia_driver", lambda: False)
    wrong(tmp_path, monkeypatch)
    with pytest.raises(Advised) as caught:
        asked()
    assert found in str(caught.value) and advice in caught.value.advice
    assert caught.value.verdict == (FAILED if case in FAILS else NOTED)


def test_an_intact_installation_is_reported(tmp_path: Path, monkeypatch: Patch) -> None:
    """Intact packages and a machine without them are both reported as fine."""
    torch = packages.version("torch")
    assert torch is not None
    plant(tmp_path, "torchvision", "9", f"Requires-Dist: torch=={torch.partition('+')[0]}")
    packages._installed.cache_clear()
    assert installation.companions() == "none for another torch"
    assert torch in str(installation.torch_build())
    assert installation.other_devices() == installation.nvidia_libraries() == "none"
    monkeypatch.delenv("TORCHDEVICE_AUTO", raising=False)
    with pytest.raises(NotHereError, match="not installed"):
        installation.shim()


def test_a_wheel_that_fits_needs_no_compiler(tmp_path: Path, monkeypatch: Patch) -> None:
    made = wheel.write(tmp_path, OURS, toolchain.installed_torch().version, {"cuda": build.library("cuda")})
    shutil.unpack_archive(made, tmp_path, "zip")
    _no_compiler(tmp_path, monkeypatch)
    importlib.invalidate_caches()
    assert installation.compiled_part() == f"from torchdevice-cuda-native {OURS}"
    assert inventory.others() == []
    with pytest.raises(NotHereError, match="none is needed"):
        installation.compiler()


def test_the_advice_removes_old_libraries_only(tmp_path: Path, monkeypatch: Patch) -> None:
    _old_libraries(tmp_path, monkeypatch)
    folder = tmp_path / "cache"
    kept = [build.whereabouts(kind).path.parent for kind in build.KINDS] + [folder / "kernels", folder / "bin"]
    for path in kept:
        path.mkdir()
    subprocess.run(inventory.write_removal(), shell=True, check=True)
    assert sorted(folder.iterdir()) == sorted(kept)


@pytest.mark.parametrize(
    ("system", "installer", "advice"),
    [
        ("Linux", "apt-get", "Install one (apt-get install g++), set CXX, "),
        ("Linux", "dnf", "Install one (dnf install gcc-c++), set CXX, "),
        ("Linux", "", "Install one, set CXX, "),
        ("Darwin", "", "Install one (xcode-select --install), set CXX, "),
    ],
)
def test_advice_fits_the_machine(system: str, installer: str, advice: str, tmp_path: Path, monkeypatch: Patch) -> None:
    _no_compiler(tmp_path, monkeypatch)
    monkeypatch.delenv("CXX")
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}" if name == installer else None)
    with pytest.raises(Advised) as caught:
        installation.compiler()
    assert caught.value.advice.startswith(advice)


def test_a_mac_needs_no_virtual_gpu(tmp_path: Path, monkeypatch: Patch) -> None:
    _empty_cache(tmp_path, monkeypatch)
    monkeypatch.setattr(inventory, "part", lambda kind: inventory.Part(None, "", "", "missing"))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.raises(NotHereError, match="only --driver virtual needs it"):
        installation.compiled_part()


def test_torch_is_not_imported() -> None:
    """A torch that does not load is what people ask a doctor about."""
    code = (
        "import sys; from torchdevice_cuda.doctor.checks import installation\n"
        "installation.torch_build(); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
