"""The version of torchdevice_cuda."""

__version__ = "0.1.0"
