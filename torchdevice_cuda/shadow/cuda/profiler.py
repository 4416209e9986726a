"""Switches for an external profiler that waits to be told when to collect."""

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

import torch

from torchdevice_cuda._compat import publishes

from . import check_error, cudart

__all__ = ["start", "stop", "profile"]

# What nvprof was asked to record.
DEFAULT_FLAGS = [
    "gpustarttimestamp",
    "gpuendtimestamp",
    "gridsize3d",
    "threadblocksize",
    "streamid",
    "enableonstart 0",
    "conckerneltrace",
]


if publishes("torch.cuda.profiler.init", torch.__version__):
    __all__ += ["init"]

    def init(output_file: Any, flags: Any = None, output_mode: str = "key_value") -> NoReturn:
        """Raises: profilers have been set up from outside since CUDA 12."""
        raise AssertionError("CUDA12+ does not need profiler initialization!")


def start() -> None:
    """Tell the profiler to collect from here on; :class:`torch.cuda.CudaError` where that fails."""
    check_error(cudart().cudaProfilerStart())


def stop() -> None:
    """Tell the profiler to stop collecting; :class:`torch.cuda.CudaError` where that fails."""
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Have the profiler collect what runs inside ``with``."""
    try:
        start()
        yield
    finally:
        stop()
