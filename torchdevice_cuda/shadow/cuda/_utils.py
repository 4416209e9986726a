"""Indices of devices, and the ways to NVIDIA's driver: the first are stock's, the others are closed.

On a CUDA build the packages that lead there are installed, whether there is a GPU or not.
"""

from typing import NoReturn

from torchdevice_cuda.drivers import active
from torchdevice_cuda.shadow import stock

stock.execute(globals())

if "_HAS_CUDA_BINDINGS" in globals():
    _HAS_CUDA_BINDINGS = False


def _get_cuda_library() -> NoReturn:
    """Raises what a machine without the library would."""
    raise OSError(f"the {active().name!r} driver of torchdevice_cuda has no GPU for NVIDIA's libcuda to drive")
