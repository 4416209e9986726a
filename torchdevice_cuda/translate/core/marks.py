"""Tensors that are known to be somewhere, kept beside them: an attribute would change how they pickle."""

from __future__ import annotations

import weakref
from typing import Any

import torch

_SWEEP_ABOVE = 4096


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return a tensor's memory on the host; ``None`` for what has none of its own (sparse tensors, wrappers of others).

    What is no tensor has none either: a call with it goes on to torch's own error.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


class References:
    """Objects that something is known of, kept weakly and by ``id``."""

    def __init__(self) -> None:
        #: Known tensors; hot paths read and write it themselves and then check :attr:`limit`.
        self.refs: dict[int, weakref.ref[Any]] = {}
        self.limit = _SWEEP_ABOVE

    def note(self, value: Any) -> None:
        """Know an object from now on."""
        self.refs[id(value)] = weakref.ref(value)
        if len(self.refs) > self.limit:
            self.sweep()

    def holds(self, value: Any) -> bool:
        """Return whether an object is known: it, and not another at the address of one that has died."""
        reference = self.refs.get(id(value))
        return reference is not None and reference() is value

    def sweep(self) -> None:
        """Drop what has died; as often as the number of the living asks for, so that the cost of each is constant."""
        for key, reference in list(self.refs.items()):
            # Another thread may have noted something new at the address meanwhile.
            if reference() is None and self.refs.get(key) is reference:
                del self.refs[key]
        self.limit = max(_SWEEP_ABOVE, 2 * len(self.refs))


class Marks(References):
    """Tensors known to be "on CUDA" where CUDA's memory and the CPU's are the same.

    A tensor made for CUDA and one made for the CPU are alike on the ``cpu`` driver; moving between the two must copy
    (a program writes into the one and reads the other), moving to where the tensor is must not. Marks are kept beside
    the tensors, weakly: an attribute would change how they pickle.

    What a move to CUDA made is known by its memory too, so that a module's parameters (which take the memory over) and
    whatever shares it (``detach()``, ``state_dict()``, views) are on CUDA: ``{k: v.cpu() for k, v in state.items()}``
    is how programs take a snapshot. Factories mark the tensor alone, which is all that their speed allows.
    """

    def __init__(self) -> None:
        super().__init__()
        #: The living storages that moves made, by address.
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor, and return it."""
        self.note(tensor)
        return tensor

    def add_moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark a tensor in memory of its own, with all that will share the memory, and return it."""
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
