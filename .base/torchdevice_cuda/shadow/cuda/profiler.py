"""Switches for an external profiler that waits to be told when to collect."""

import contextlib

import torch

from torchdevice_cuda._compat import torch_release

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


if torch_release(torch.__version__) <= (2, 10):
    __all__ += ["init"]

    def init(output_file, flags=None, output_mode="key_value"):
        """Refuse: profilers have been set up from outside since CUDA 12; later releases of torch lack this function."""
        raise AssertionError("CUDA12+ does not need profiler initialization!")


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
