"""Everything that depends on the version of torch or of its CUDA build, in one place.

Importing this imports no torch: the shadow tree asks while torch is being imported, activation before that.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any, cast

MINIMUM = (2, 6)
NEWEST_KNOWN = (2, 15)


@dataclasses.dataclass(frozen=True)
class Build:
    """What the default Linux wheel of a torch release, from this one on, is built with."""

    since: tuple[int, int]
    cuda: str
    nccl: tuple[int, int, int]
    cudnn: tuple[int, int, int]
    cusparselt: int


# A CPU build has none of these libraries of its own, and programs read their versions to choose code paths.
_BUILDS: tuple[Build, ...] = (
    Build((2, 11), "13.0", (2, 28, 9), (9, 19, 0), 800),
    Build((2, 9), "12.8", (2, 27, 5), (9, 10, 2), 701),
    Build((2, 8), "12.8", (2, 27, 3), (9, 10, 2), 701),
    Build((2, 7), "12.6", (2, 26, 2), (9, 5, 1), 603),
    Build((2, 6), "12.4", (2, 21, 5), (9, 1, 0), 602),
)


def torch_release(version: str) -> tuple[int, int]:
    """``(major, minor)`` of a torch version string such as ``2.13.0+cpu``."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        raise ValueError(f"torch version {version!r} has no major and minor number")
    return int(match[1]), int(match[2])


def _build(version: str) -> Build:
    release = torch_release(version)
    return next((build for build in _BUILDS if release >= build.since), _BUILDS[-1])


def cuda_version(version: str) -> str:
    """The CUDA version that goes with a torch release, such as ``12.8``."""
    return _build(version).cuda


def nccl_version(version: str) -> tuple[int, int, int]:
    """The NCCL version that goes with a torch release."""
    return _build(version).nccl


def cudnn_version(version: str) -> tuple[int, int, int]:
    """The cuDNN version that goes with a torch release."""
    return _build(version).cudnn


def cusparselt_version(version: str) -> int:
    """The cuSPARSELt version that goes with a torch release, as one number."""
    return _build(version).cusparselt


def complex128_on_mps(version: str) -> bool:
    """Whether torch makes complex128 tensors on MPS, where nothing can compute with them."""
    return torch_release(version) < (2, 12)


# ------------------------------------------------------------ names that come and go
#: Names of torch.cuda that later releases dropped, by the last release that has them.
_LAST_RELEASE: dict[str, tuple[int, int]] = {
    "torch.cuda.memory.MemPoolContext": (2, 7),  # use_mem_pool alone does its work since
    "torch.cuda.tunable.write_file": (2, 9),  # results are written as they come since
    "torch.cuda.tunable.write_file_on_exit": (2, 9),
    "torch.cuda.profiler.init": (2, 10),  # CUDA has had nothing to initialise since its version 12
}


def publishes(name: str, version: str) -> bool:
    """Whether a torch release still has one of the names that later ones dropped."""
    return torch_release(version) <= _LAST_RELEASE[name]


def accelerator_error() -> type[RuntimeError]:
    """What CUDA raises for its own errors: a type of torch's since 2.8, a plain ``RuntimeError`` before."""
    import torch._C

    found: type[RuntimeError] = getattr(torch._C, "AcceleratorError", RuntimeError)
    return found


def snapshot_augmenter() -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """What adds FX's traces to a memory snapshot: there since 2.10, snapshots carried none before."""
    try:
        from torch._utils import _augment_memory_snapshot_stack_traces
    except ImportError:
        return None
    # Snapshots are plain dictionaries in every release; the later ones have a name for their type.
    return cast("Callable[[dict[str, Any]], dict[str, Any]]", _augment_memory_snapshot_stack_traces)


def cuda_bindings_check() -> Callable[[Any], Any] | None:
    """What reads the results of the ``cuda.bindings`` package: a function of torch's since 2.12."""
    try:
        from torch.cuda._utils import _check_cuda_bindings
    except ImportError:
        return None
    return _check_cuda_bindings


# ------------------------------------------------------------------ the dispatcher
def knows_dispatch_key(key: str) -> bool:
    """Whether torch has a dispatch key of this name: those for sparse tensors on MPS came after 2.6, one by one."""
    import torch

    try:
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::add.Tensor", key)
    except RuntimeError:
        return False
    return True


def kernels_can_be_called() -> bool:
    """Whether a kernel can call the one that it overrides: ``torch.library.get_kernel``, since 2.10."""
    import torch

    return hasattr(torch.library, "get_kernel")
