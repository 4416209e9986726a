"""Switches for an external profiler that waits to be told when to collect."""

import contextlib

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


def start():
    """Tell the profiler to collect from here on; :class:`torch.cuda.CudaError` where that fails."""
    check_error(cudart().cudaProfilerStart())


def stop():
    """Tell the profiler to stop collecting; :class:`torch.cuda.CudaError` where that fails."""
    check_error(cudart().cudaProfilerStop())


@contextlib.contextmanager
def profile():
    """Have the profiler collect what runs inside ``with``."""
    try:
        start()
        yield
    finally:
        stop()
