"""Check installed packages, paths and settings, and give advice. torch is not imported."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import site
import subprocess
import sys
import sysconfig
from pathlib import Path

from torchdevice_cuda import _compat, settings
from torchdevice_cuda._version import __version__
from torchdevice_cuda.drivers.host.facts import has_nvidia_driver
from torchdevice_cuda.native import build, inventory, toolchain

from .. import packages
from ..asking import Finding, NotHereError, advise, main, question

_MIB = 1 << 20
#: More than a build and its objects need.
_ROOM = 1 << 29
#: Libraries whose wrong version goes unnoticed.
_FEW_BYTES = 100 * _MIB
_SHIM = "torchdevice-cuda-shim"
_CPU_BUILD = "pip install torch --index-url https://download.pytorch.org/whl/cpu"


@question
def torch_build() -> Finding:
    version = packages.version("torch")
    if version is None:
        advise("torch is not installed in this python", "pip install torch", fails=True)
    places = packages.places("torch")
    if len(places) > 1:
        advise(f"torch is installed {len(places)} times: {', '.join(places)}", "uninstall all but one")
    installed = toolchain.installed_torch()
    release = _compat.torch_release(installed.version)
    if release < _compat.MINIMUM:
        oldest = ".".join(map(str, _compat.MINIMUM))
        advise(f"torch {installed.version} is older than {oldest}", f'pip install "torch>={oldest}"', fails=True)
    if release > _compat.NEWEST_KNOWN:
        newest = ".".join(map(str, _compat.NEWEST_KNOWN))
        advise(
            f"torch {installed.version} is newer than {newest}, the newest that was tried",
            f'pip install "torch<={newest}.*"',
        )
    return f"torch {installed.version}, {'CUDA' if _is_cuda_build(installed) else 'CPU'} build"


def _is_cuda_build(installed: toolchain.Torch) -> bool:
    return any((installed.root / "lib").glob("*torch_cuda*"))


@question
def compiled_part() -> Finding:
    """Return the compiled part of the virtual GPU."""
    found = inventory.part("cuda")
    if found.path is None:
        if sys.platform == "darwin" and platform.machine() == "arm64":
            raise NotHereError("not built, and only --driver virtual needs it on a Mac with an Apple GPU")
        if not build.has_compiler():
            advise(
                f"the virtual GPU has no compiled part ({found.why}), and there is no compiler",
                "install one, or a wheel of torchdevice-cuda-native (docs/native-wheels.md)",
            )
        advise(f"the virtual GPU's compiled part is not there yet ({found.why})", "python -m torchdevice_cuda --build")
    if found.otherwise:
        advise(
            f"{found.otherwise}, so it is not used; what was compiled here is",
            "python -m torchdevice_cuda --build --wheel-dir makes one that fits, or uninstall torchdevice-cuda-native",
        )
    return f"from {found.distribution}" if found.distribution else f"compiled here, {found.path.parent.name}"


@question
def compiler() -> Finding:
    try:
        found = toolchain.compiler()
    except build.BuildError as error:
        if inventory.part("cuda").path is not None:
            raise NotHereError("none, and none is needed: the compiled part is there") from error
        advise("there is no C++ compiler", str(error).rpartition(". ")[2])
    done = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=15)
    if done.returncode or not done.stdout.strip():
        advise(f"{found} --version fails with status {done.returncode}", "install another compiler, or set CXX")
    return done.stdout.splitlines()[0]


@question
def cache() -> Finding:
    folder = settings.cache_dir()
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not os.access(there, os.W_OK):
        advise(f"{folder} cannot be written", "set TORCHDEVICE_CACHE_DIR to a folder of yours")
    room = shutil.disk_usage(there).free
    if room < _ROOM:
        advise(f"the disk of {folder} has {room // _MIB} MiB left", "make room, or set TORCHDEVICE_CACHE_DIR")
    others = inventory.others()
    size = sum(map(inventory.size, others))
    if size > _FEW_BYTES:
        advise(
            f"{folder} holds {len(others)} libraries for other versions, {size // _MIB} MiB",
            f"{inventory.write_removal()} (what is needed again is compiled again)",
        )
    return f"{folder}, {room // _MIB} MiB left on its disk"


@question
def metal() -> Finding:
    if sys.platform != "darwin":
        raise NotHereError("only a Mac has it")
    if importlib.util.find_spec("Metal") is None:
        advise(
            "the package Metal is not there: names and limits of the GPU are guessed",
            "pip install pyobjc-framework-Metal",
        )
    return f"macOS {platform.mac_ver()[0]}, pyobjc {packages.version('pyobjc-core')}"


@question
def mlx() -> Finding:
    found = packages.version("mlx")
    if found is None:
        if sys.platform == "darwin" and platform.machine() == "arm64":
            advise("MLX is not installed: what MPS lacks is computed by the CPU", "pip install mlx")
        raise NotHereError("not installed, and only used with Apple GPUs")
    return f"mlx {found}"


@question
def shim() -> Finding:
    found = packages.version(_SHIM)
    if found is None:
        if os.environ.get("TORCHDEVICE_AUTO") and importlib.util.find_spec("torchdevice_cuda_shim") is None:
            advise("TORCHDEVICE_AUTO is set, and the shim that reads it is not installed", f"pip install {_SHIM}")
        raise NotHereError("not installed; it is for images where every python process is to see CUDA")
    if found != __version__:
        advise(f"{_SHIM} {found} is beside torchdevice-cuda {__version__}", f"pip install {_SHIM}=={__version__}")
    folders = [Path(place) for place in packages.places(_SHIM)]
    if not any((folder / "torchdevice_cuda_shim.pth").is_file() for folder in folders):
        advise("torchdevice_cuda_shim.pth is gone: the shim never runs", f"pip install --force-reinstall {_SHIM}")
    # Python reads .pth files only in these folders.
    read = {os.path.realpath(path) for path in [*site.getsitepackages(), site.getusersitepackages()]}
    if not any(os.path.realpath(folder) in read for folder in folders):
        advise(
            f"{folders[0]} is no folder whose .pth files python reads: the shim never runs",
            f"pip install {_SHIM} into the environment itself",
        )
    return f"{found}, TORCHDEVICE_AUTO={os.environ.get('TORCHDEVICE_AUTO', '')!r}"


@question
def sitecustomize() -> Finding:
    """Python runs the first sitecustomize that it finds; the shim's runs the next one, and others do not."""
    there = [path for entry in sys.path if entry and (path := Path(entry, "sitecustomize.py")).is_file()]
    ours = [path for path in there if path.with_name("torchdevice_cuda_shim.py").is_file()]
    if ours and there[0] not in ours:
        advise(
            f"{there[0]} is found before {ours[0]}, which therefore never runs",
            f"install {_SHIM} instead of naming its folder, or put that folder first in PYTHONPATH",
        )
    return ", ".join(map(str, there)) or "none"


@question
def other_devices() -> Finding:
    """Look for packages that change the same parts of torch."""
    if found := packages.rivals():
        told = ", ".join(f"{name} ({packages.RIVALS[name]})" for name in found)
        advise(f"installed beside us: {told}", f"pip uninstall {' '.join(found)}, or use another environment")
    loaded = packages.backends()
    if loaded and os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "0":
        advise(f"torch loads by itself: {', '.join(loaded)}", "set TORCH_DEVICE_BACKEND_AUTOLOAD=0")
    return "none"


@question
def companions() -> Finding:
    """torchvision and others are compiled for one torch: with another, operators are missing."""
    if wrong := packages.for_another_torch(packages.version("torch") or ""):
        told = ", ".join(f"{name} is for torch {wanted}" for name, wanted in wrong)
        names = " ".join(name.partition(" ")[0] for name, _ in wrong)
        advise(
            f"{told}, not {packages.version('torch')}",
            f"pip install --upgrade torch=={packages.version('torch')} {names}",
        )
    return "none for another torch"


@question
def numpy() -> Finding:
    found = packages.version("numpy")
    if found is None:
        advise("NumPy is not installed: torch warns when it is imported, and x.numpy() fails", "pip install numpy")
    return found


@question
def nvidia_libraries() -> Finding:
    count, size = packages.nvidia()
    if not count:
        return "none"
    if not has_nvidia_driver():
        advise(
            f"{count} packages of NVIDIA's libraries, {size / 1e9:.1f} GB, and no GPU",
            f"the CPU build will do: {_CPU_BUILD}",
        )
    return f"{count} packages, and a GPU"


@question
def variables() -> Finding:
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        advise("CUDA_VISIBLE_DEVICES hides every GPU from programs", "unset CUDA_VISIBLE_DEVICES")
    settings.load()
    return ", ".join(sorted(name for name in os.environ if name in settings.known_variables())) or "none set"


@question
def this_python() -> Finding:
    told = f"Python {platform.python_version()}, {sys.executable}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        advise(f"{told} has no GIL, with which nothing of this was tried", "use the ordinary build of Python")
    return told


if __name__ == "__main__":
    main()
