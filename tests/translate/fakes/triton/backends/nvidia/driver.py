"""Asks torch whether there is a GPU."""

from __future__ import annotations


class CudaDriver:
    """Loads NVIDIA's driver where there is one."""

    def __init__(self) -> None:
        raise AssertionError("libcuda.so cannot found!")

    @staticmethod
    def is_active() -> bool:
        """Return whether it is to be used."""
        import torch

        return torch.cuda.is_available()
