"""The journal of a capture: memory that is not its own is as it was before, when the capture has ended.

Calls are made while they are recorded: results need shapes and memory, and some kernels look at elements.
"""

from __future__ import annotations

import torch


def memory_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Return the memory that a tensor lies in."""
    return tensor.untyped_storage()


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a tensor over all of it."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


class Journal:
    """The memory that a capture has written to, by storage. The storages are kept alive meanwhile."""

    def __init__(self) -> None:
        self._own: dict[int, torch.UntypedStorage] = {}
        #: memory into which nothing of the GPU's went: where nothing tells, it may be the host's
        self._values: dict[int, torch.UntypedStorage] = {}
        self._kept: dict[int, tuple[torch.UntypedStorage, torch.Tensor]] = {}

    def adopt(self, tensor: torch.Tensor) -> None:
        """Adopt memory that was allocated to the capture: it is zeroed at the end, as unwritten memory."""
        storage = memory_of(tensor)
        self._own[storage._cdata] = storage

    def note_value(self, tensor: torch.Tensor) -> None:
        """Keep a tensor whose value may be the host's."""
        storage = memory_of(tensor)
        self._values[storage._cdata] = storage

    def owns(self, tensor: torch.Tensor) -> bool:
        """Return whether it is the capture's own."""
        return memory_of(tensor)._cdata in self._own

    def is_value(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor was made in the capture, and nothing of the GPU's went into it."""
        return memory_of(tensor)._cdata in self._values

    def spoil(self, tensor: torch.Tensor) -> None:
        """Something of the GPU's was written into it."""
        self._values.pop(memory_of(tensor)._cdata, None)

    def keep(self, tensor: torch.Tensor) -> None:
        """A tensor is about to be written to."""
        storage = memory_of(tensor)
        if storage._cdata in self._own or storage._cdata in self._kept or not storage.nbytes():
            return
        self._kept[storage._cdata] = storage, _bytes(storage).clone()

    def put_back(self) -> list[torch.UntypedStorage]:
        """Undo what the capture has done; the memory that it was given."""
        own = list(self._own.values())
        for name, storage in self._own.items():
            if name not in self._values and storage.nbytes():
                _bytes(storage).zero_()
        for storage, kept in self._kept.values():
            now = _bytes(storage)
            now[: kept.numel()].copy_(kept[: now.numel()])
        self._own.clear()
        self._kept.clear()
        self._values.clear()
        return own


class Glance:
    """Memory of the host's that one call writes to: put back at once, since the host can look at it."""

    def __init__(self, written: list[torch.Tensor]) -> None:
        self._kept = [(tensor, tensor.clone()) for tensor in written]

    def put_back(self) -> None:
        """Undo what the call has done."""
        for tensor, kept in self._kept:
            tensor.copy_(kept)
