"""A program that binds names of torch when it is imported."""

from torch import arange, full, is_autocast_enabled, load, rand, tensor, zeros, zeros_like
from torch.cuda import Event, Stream, device_count, is_available, nvtx, set_device
from torch.fft import fftfreq

FACTORIES = ("arange", "fftfreq", "full", "rand", "tensor", "zeros", "zeros_like")
__all__ = [
    "FACTORIES",
    "Event",
    "Stream",
    "arange",
    "device_count",
    "fftfreq",
    "full",
    "is_autocast_enabled",
    "is_available",
    "load",
    "nvtx",
    "rand",
    "set_device",
    "tensor",
    "zeros",
    "zeros_like",
]
