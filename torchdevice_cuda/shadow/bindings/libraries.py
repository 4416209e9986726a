"""CUDA's libraries as torch shows them: cuDNN, cuBLAS, cuSPARSELt, the kernel compilers and launchers.

The host computes with its own libraries. Settings are stored, versions are those of this release of torch, and
functions that would run code for an NVIDIA GPU raise an error with an alternative.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

from ... import rehearsal
from ..._compat import cudnn_version, cusparselt_version
from ...drivers import active
from ...drivers.traits import Trait
from . import pybind

__all__ = [
    "_FastCudaLauncher",
    "_StaticCudaLauncher",
    "_cudnn",
    "_cudnn_clear_dropout_state",
    "_cudnn_set_conv_benchmark_empty_cache",
    "_cusparselt",
    "_has_cudnn",
]

_has_cudnn = True

# torch refuses newer versions of cuDNN on devices with a compute capability below 7.5.
_LAST_FOR_OLD_DEVICES, _NEWER_NEED = (9, 10, 2), (7, 5)


# ---------------------------------------------------------------------------- cuDNN
def getRuntimeVersion() -> tuple[int, int, int]:
    """Return the version of cuDNN for this release of torch and the reported compute capability."""
    version = cudnn_version(torch.__version__)
    if active().settings.claimed_capability < _NEWER_NEED:
        return min(version, _LAST_FOR_OLD_DEVICES)
    return version


def getCompileVersion() -> tuple[int, int, int]:
    """Return the version that torch would have been compiled against: the same."""
    return getRuntimeVersion()


def _cudnn_version_int() -> int:
    """Return the version as one number, 91002 for 9.10.2."""
    major, minor, patch = getRuntimeVersion()
    return major * 10000 + minor * 100 + patch


_cudnn = pybind.submodule(
    "torch._C._cudnn",
    "cuDNN's facts; the host's own kernels do its work",
    {
        "RNNMode": pybind.enum("torch._C._cudnn", "RNNMode", {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}),
        "is_cuda": True,
        "getVersionInt": _cudnn_version_int,
        **pybind.public(getRuntimeVersion, getCompileVersion),
    },
)

_benchmark_limit = 10
_benchmark_empty_cache = True


def _cuda_get_cudnn_benchmark_limit() -> int:
    """Return the number of algorithms that benchmarking would try; 0 for all."""
    return _benchmark_limit


def _cuda_set_cudnn_benchmark_limit(limit: int) -> None:
    """Store the limit."""
    global _benchmark_limit
    if type(limit) is not int:
        raise RuntimeError(f"set_benchmark_limit_cudnn expects an int, but got {type(limit).__name__}")
    _benchmark_limit = limit


def _cuda_get_conv_benchmark_empty_cache() -> bool:
    """Return whether benchmarking a convolution may empty the memory cache."""
    return _benchmark_empty_cache


def _cudnn_set_conv_benchmark_empty_cache(enable: bool) -> None:
    """Store whether benchmarking may empty the memory cache."""
    global _benchmark_empty_cache
    if not isinstance(enable, bool):
        raise RuntimeError(f"set_conv_benchmark_empty_cache expects a bool, but got {type(enable).__name__}")
    _benchmark_empty_cache = enable


# --------------------------------------------------------------------------- cuBLAS
# Sizes that a program has set; otherwise CUDA's default is shown. The host's BLAS needs no workspace: it is allocated
# only where memory is predicted too (rehearsal/blas.py).
_workspace: dict[str, int] = {}


def _checked_size(size: object, whose: str) -> int:
    if type(size) is not int:
        raise TypeError(f"workspace size must be an int, not {type(size).__name__}")
    if size < 0:
        raise RuntimeError(f"{whose} workspace size must be non-negative, got {size}")
    return size


def _cuda_getCublasWorkspaceSize() -> int:
    """Return the workspace bytes: the program's, else the environment's, else CUDA's for such a device."""
    if "cublas" in _workspace:
        return _workspace["cublas"]
    from ...rehearsal import blas

    return blas.find_blas_bytes(active().settings.claimed_capability[0])


def _apply_size() -> None:
    device = active().native
    if device is not None and rehearsal.is_timed():
        from ...rehearsal import blas

        blas.size_workspaces(device, _cuda_getCublasWorkspaceSize(), torch.__version__)


def _cuda_setCublasWorkspaceSize(size: int) -> None:
    """Store a size, which a GPU whose time is predicted allocates."""
    _workspace["cublas"] = _checked_size(size, "cublas")
    _apply_size()


def _cuda_resetCublasWorkspaceSize() -> None:
    """Restore the default."""
    _workspace.pop("cublas", None)
    _apply_size()


def _cuda_getCublasLtWorkspaceSize() -> int:
    """Return cuBLASLt's workspace bytes: the program's, else the environment's, else it shares cuBLAS's."""
    if "cublaslt" in _workspace:
        return _workspace["cublaslt"]
    from ...rehearsal import blas

    return blas.find_blas_lt_bytes(otherwise=_cuda_getCublasWorkspaceSize())


def _cuda_setCublasLtWorkspaceSize(size: int) -> None:
    """Store a size."""
    _workspace["cublaslt"] = _checked_size(size, "cublaslt")


def _cuda_resetCublasLtWorkspaceSize() -> None:
    """Restore the default."""
    _workspace.pop("cublaslt", None)


def _cudnn_clear_dropout_state() -> None:
    """Do nothing: cuDNN's recurrent layers keep random states, the host's do not."""


def _cuda_clearCublasWorkspaces() -> None:
    """Free those that a GPU has whose time is predicted; the host's BLAS has none."""
    device = active().native
    if device is not None and rehearsal.is_timed():
        device.clear_workspaces()


def _cuda_getHipblasltVersion() -> NoReturn:
    """Raise, as in every CUDA build: hipBLASLt belongs to ROCm."""
    raise RuntimeError("hipBLASLt belongs to ROCm builds of torch; this one presents CUDA")


# ----------------------------------------------------------------------- cuSPARSELt
def _cusparselt_version_int() -> int:
    """Return the version of this release of torch."""
    return cusparselt_version(torch.__version__)


def mm_search(*args: Any, **kwargs: Any) -> tuple[int, int, int, int]:
    """Return algorithm, split and its mode, and the last algorithm: there is one, which the product uses."""
    torch.ops.aten._cslt_sparse_mm(*args, **kwargs)
    return 0, 1, -1, 0


_cusparselt = pybind.submodule(
    "torch._C._cusparselt",
    "cuSPARSELt's facts",
    {"getVersionInt": _cusparselt_version_int, "mm_search": mm_search},
)


# ------------------------------------------------------------- compilers, launchers
def _no_kernels(what: str) -> RuntimeError:
    return RuntimeError(
        f"{what} is code for an NVIDIA GPU, which the {active().name!r} driver of torchdevice_cuda cannot run; "
        "write it with torch operators instead"
    )


def _cuda_jiterator_compile_and_launch_kernel(
    code_string: str,
    kernel_name: str,
    return_by_ref: bool,
    num_outputs: int,
    tensors: tuple[torch.Tensor, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compile the function for the host, and call it for every element."""
    from torchdevice_cuda.cuda_cpp import jiterator
    from torchdevice_cuda.drivers.recording.mode import recording_here

    traits = active().traits

    def launch(*given: torch.Tensor) -> Any:
        arguments = (code_string, kernel_name, return_by_ref, num_outputs, given, kwargs)
        if not traits & Trait.HOST_MEMORY:
            return jiterator.launch_lent(active().loan(), *arguments)
        return jiterator.launch(*arguments, takes_host=bool(traits & Trait.TRANSLATED))

    recording = recording_here() if torch._C._len_torch_dispatch_stack() else None
    if recording is None:
        return launch(*tensors)
    return recording.foreign(kernel_name, launch, tuple(tensors), [])


class _StaticCudaLauncher:
    """Loads and launches compiled kernels on CUDA."""

    @staticmethod
    def _load_kernel(cubin_file: str, func_name: str, shared_mem_bytes: int, device: int) -> tuple[int, int, int]:
        raise _no_kernels(f"The compiled kernel {func_name!r} ({cubin_file})")

    @staticmethod
    def _launch_kernel(func: int, *args: Any) -> None:
        raise _no_kernels(f"The compiled kernel at {func:#x}")

    @staticmethod
    def _launch_cooperative_kernel(func: int, *args: Any) -> None:
        raise _no_kernels(f"The compiled kernel at {func:#x}")


class _FastCudaLauncher:
    """Launches one compiled kernel with little overhead on CUDA."""

    def __init__(self, func: int, *args: Any) -> None:
        raise _no_kernels(f"The compiled kernel at {func:#x}")


for _class in (_StaticCudaLauncher, _FastCudaLauncher):
    _class.__module__ = "torch._C"
for _function in (_cudnn_version_int, _cusparselt_version_int):
    _function.__name__ = _function.__qualname__ = "getVersionInt"
