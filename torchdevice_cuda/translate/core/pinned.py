"""Pinned memory if all memory is the host's: pinning changes nothing, but programs query whether a tensor is pinned."""

from __future__ import annotations

import weakref
from collections.abc import Mapping

import torch


class Pinned:
    """Storages that count as pinned, recorded by address while they are alive."""

    def __init__(self, registered: Mapping[int, int]) -> None:
        #: memory that the program registered with CUDA: address -> bytes
        self._registered = registered
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def adopt(self, tensor: torch.Tensor) -> torch.Tensor:
        """Count a tensor's storage as pinned, and return the tensor."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address:
            self._storages[address] = weakref.ref(storage, lambda _: self._storages.pop(address, None))
        return tensor

    def __contains__(self, tensor: torch.Tensor) -> bool:
        if not (self._storages or self._registered):
            return False
        if tensor.layout is not torch.strided:
            return False
        address = tensor.untyped_storage().data_ptr()
        return address in self._storages or any(
            start <= address < start + size for start, size in self._registered.items()
        )
