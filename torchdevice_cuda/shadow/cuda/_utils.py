"""Stock's device indices, and torchdevice_cuda's replacements of NVIDIA's compiler and driver.

A CUDA build installs the packages of the compiler and the driver, whether or not there is a GPU.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import torch

from torchdevice_cuda.cuda_cpp.leaving import leaving
from torchdevice_cuda.drivers import active
from torchdevice_cuda.drivers.loans import Loan
from torchdevice_cuda.drivers.traits import Trait
from torchdevice_cuda.shadow import stock

if TYPE_CHECKING:
    from torchdevice_cuda.cuda_cpp import compiled

stock.execute(globals())

if "_HAS_CUDA_BINDINGS" in globals():
    _HAS_CUDA_BINDINGS = False


@functools.cache
def _get_nvrtc_library() -> compiled.Rtc:
    """Return the functions of NVRTC that compile a kernel."""
    from torchdevice_cuda.cuda_cpp import compiled  # it takes long to import, and most programs compile none

    return compiled.Rtc()


@functools.cache
def _get_cuda_library() -> compiled.Runtime:
    """Return the functions of the driver that load and launch a kernel."""
    from torchdevice_cuda.cuda_cpp import compiled

    return compiled.Runtime()


if "_CudaKernel" in globals():
    _StockKernel = globals()["_CudaKernel"]

    class _Device(torch.Tensor):
        """A tensor in host memory that a kernel gets as a device tensor."""

        is_cuda = True
        __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    class _CudaKernel(_StockKernel):  # type: ignore[misc, valid-type]
        """A compiled kernel. It takes "cuda" tensors in host memory directly; otherwise copies on the host."""

        def __call__(self, grid: Any = (1, 1, 1), block: Any = (1, 1, 1), args: Any = None, **kwargs: Any) -> None:
            """Launch it, or record the launch in a graph that is being captured."""
            from torchdevice_cuda.drivers.recording.mode import recording_here  # needs all of torch

            recording = recording_here() if torch._C._len_torch_dispatch_stack() else None
            if recording is None:
                self._launch(grid, block, args, **kwargs)
                return

            def launch(*given: Any) -> None:
                self._launch(grid, block, given, **kwargs)

            written = [value for value in args or [] if isinstance(value, torch.Tensor)]
            recording.foreign(f"kernel {_get_cuda_library().name_of(self.func)}", launch, tuple(args or []), written)

        def _launch(self, grid: Any, block: Any, args: Any, **kwargs: Any) -> None:
            traits = active().traits
            loan: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
            if traits & Trait.HOST_MEMORY:
                prepared = _on_host if traits & Trait.TRANSLATED else _as_given
            else:
                loan = active().loan()
                prepared = functools.partial(_lent, loan)
                leaving(f"kernel {_get_cuda_library().name_of(self.func)}")
            args = [prepared(a) if isinstance(a, torch.Tensor) else a for a in args or []]
            with loan:
                super().__call__(grid, block, args, **kwargs)

    def _as_given(tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def _on_host(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.as_subclass(_Device)

    def _lent(loan: Loan, tensor: torch.Tensor) -> torch.Tensor:
        """Return a device tensor's memory on the host; stock refuses host tensors, or they are pinned."""
        return tensor if tensor.is_cpu else loan.tensor(tensor).as_subclass(_Device)
