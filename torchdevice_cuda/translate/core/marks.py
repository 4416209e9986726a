"""Tensors whose device is known, stored beside them: an attribute would change how they pickle."""

from __future__ import annotations

import weakref
from typing import Any

import torch

_SWEEP_ABOVE = 4096


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return a tensor's memory on the host; ``None`` if it has none of its own (sparse tensors, wrapper tensors).

    Return ``None`` for other objects, too: torch then raises its own error.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


class References:
    """Objects about which something is known, stored weakly and by ``id``."""

    def __init__(self) -> None:
        #: Known tensors; hot paths read and write it themselves and then check :attr:`limit`.
        self.refs: dict[int, weakref.ref[Any]] = {}
        self.limit = _SWEEP_ABOVE

    def note(self, value: Any) -> None:
        """Record an object."""
        self.refs[id(value)] = weakref.ref(value)
        if len(self.refs) > self.limit:
            self.sweep()

    def holds(self, value: Any) -> bool:
        """Return whether this object was recorded, rather than a dead one at the same address."""
        reference = self.refs.get(id(value))
        return reference is not None and reference() is value

    def sweep(self) -> None:
        """Drop dead references; the interval grows with the number of live ones, so the cost per object is constant."""
        for key, reference in list(self.refs.items()):
            # Another thread may have recorded a new object at the address meanwhile.
            if reference() is None and self.refs.get(key) is reference:
                del self.refs[key]
        self.limit = max(_SWEEP_ABOVE, 2 * len(self.refs))


class Marks(References):
    """Tensors known to be "on CUDA" where CUDA's memory and the CPU's are the same.

    On the ``cpu`` driver, tensors created for CUDA and for the CPU are alike. A move between the two must copy, because
    a program writes into one and reads the other; a move to the tensor's own device must not. Marks are stored beside
    the tensors, weakly: an attribute would change how they pickle.

    The result of a move to CUDA is also recorded by its memory, so that a module's parameters (which take over the
    memory) and tensors that share it (``detach()``, ``state_dict()``, views) are on CUDA:
    ``{k: v.cpu() for k, v in state.items()}`` is how programs take a snapshot. Factories mark only the tensor, because
    marking its memory would slow them down.
    """

    def __init__(self) -> None:
        super().__init__()
        #: Live storages that moves created, by address.
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor, and return it."""
        self.note(tensor)
        return tensor

    def add_moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor with its own memory, and all that will share the memory; return it."""
        storage = _storage(tensor)
        if storage is not None:
            address, storages = storage._cdata, self._storages
            storages[address] = weakref.ref(storage, lambda _: storages.pop(address, None))
        return self.add(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        if self.holds(tensor):
            return True
        storage = _storage(tensor) if self._storages else None
        return storage is not None and storage._cdata in self._storages
