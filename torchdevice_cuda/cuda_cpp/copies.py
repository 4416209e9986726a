"""Kernels on tensors that are not in the host's memory: they work on copies, which go back when they are done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

WHY = "CUDA C++ is compiled for the host's cores"


class Leaving:
    """The callback for launches that leave the GPU; code that knows the settings sets it."""

    told: Callable[[str, str, str], None] | None = None

    def __call__(self, name: str) -> None:
        """A kernel of this name leaves the GPU."""
        if self.told is not None:
            self.told(name, "CPU", WHY)


leaving = Leaving()


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the host: `torch.Tensor.cpu` may be redirected."""
    copied: torch.Tensor = torch._C.TensorBase.cpu(tensor.detach())
    return copied


class Copies:
    """Of whole storages, so that tensors which share one do so on the host."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor's copy on the host."""
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        if key not in self._copies:
            whole = tensor.detach().new_empty(0, dtype=torch.uint8).set_(storage)
            self._copies[key] = whole, to_host(whole)
        copy, size = self._copies[key][1], tensor.element_size()
        elements: Any = copy[: copy.numel() // size * size].view(tensor.dtype)
        held: torch.Tensor = elements.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
        return held

    def bring_back(self) -> None:
        """Copy the kernel's results back into the tensors."""
        for whole, copy in self._copies.values():
            whole.copy_(copy)
