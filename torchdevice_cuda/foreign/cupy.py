"""CuPy, which talks to NVIDIA's driver itself: what asks it for the GPU is told why there is none for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

#: Functions that create arrays and kernels without allocating; all others allocate first.
MAKERS = ("asarray", "from_dlpack", "RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel")


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"{what} needs a real NVIDIA GPU, and the one that torch.cuda shows is emulated: CuPy talks to NVIDIA's driver "
        "itself. Use torch, which computes here, or numpy; cupy.cuda.is_available() says False"
    )


def refusing(name: str) -> Callable[..., Any]:
    """Return a function that refuses in place of one of CuPy's."""

    def refused(*args: Any, **kwargs: Any) -> Any:
        _refuse(f"cupy.{name}")

    return refused


def allocate(size: int) -> Any:
    """Allocate memory for CuPy."""
    _refuse("cupy")
