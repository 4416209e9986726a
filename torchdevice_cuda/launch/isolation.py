"""A line for users of pip: by default it builds packages in an environment that only the installed shim reaches."""

from __future__ import annotations

import os
import site
from collections.abc import Sequence
from pathlib import Path

from . import failing


def is_shim_installed() -> bool:
    """Return whether every start of this Python reads the shim's .pth file; pip replaces PYTHONPATH for builds."""
    return any(Path(folder, "torchdevice_cuda_shim.pth").exists() for folder in site.getsitepackages())


def warn(args: Sequence[str]) -> None:
    """Print the line if pip gets these arguments and may build without torchdevice_cuda."""
    command = next((word for word in args if not word.startswith("-")), "")
    if command not in ("install", "wheel") or "--no-build-isolation" in args:
        return
    if "PIP_NO_BUILD_ISOLATION" in os.environ or is_shim_installed():
        return
    failing.say(
        "pip builds in an environment of its own, where there is no CUDA without the shim: for a package with kernels "
        "add --no-build-isolation, or install torchdevice-cuda-shim (docs/packages.md)"
    )
