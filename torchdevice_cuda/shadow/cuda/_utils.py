"""Indices of devices, which are stock's, and the ways to NVIDIA's compiler and driver, which lead to ours.

On a CUDA build the packages that lead there are installed, whether there is a GPU or not.
"""

from typing import Any

import torch

from torchdevice_cuda.drivers import active
from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.kernels import compiled
from torchdevice_cuda.shadow import stock

stock.execute(globals())

if "_HAS_CUDA_BINDINGS" in globals():
    _HAS_CUDA_BINDINGS = False

_rtc, _runtime = compiled.Rtc(), compiled.Runtime()


def _get_nvrtc_library() -> compiled.Rtc:
    """The functions of NVRTC that compile a kernel, where it can be launched."""
    driver = active()
    if not driver.traits & Trait.HOST_MEMORY:
        raise RuntimeError(
            f"a CUDA C++ kernel cannot be compiled for the {driver.name!r} driver of torchdevice_cuda: it would read "
            "and write the host's memory; --driver virtual runs it"
        )
    return _rtc


def _get_cuda_library() -> compiled.Runtime:
    """The functions of the driver that load and launch it."""
    return _runtime


if "_CudaKernel" in globals():
    _StockKernel = globals()["_CudaKernel"]

    class _Device(torch.Tensor):
        """A tensor in host memory that a kernel is given as the device's: it is."""

        is_cuda = True
        __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    class _CudaKernel(_StockKernel):  # type: ignore[misc, valid-type]
        """A compiled kernel. Where "cuda" tensors are the host's, those are what it takes."""

        def __call__(self, grid: Any = (1, 1, 1), block: Any = (1, 1, 1), args: Any = None, **kwargs: Any) -> None:
            """Launches it."""
            if active().traits & Trait.TRANSLATED:
                args = [a.as_subclass(_Device) if isinstance(a, torch.Tensor) else a for a in args or []]
            super().__call__(grid, block, args, **kwargs)
