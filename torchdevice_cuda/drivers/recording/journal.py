"""The journal of a capture, which restores memory that is not the capture's own when the capture ends.

Calls run while they are recorded: results need shapes and memory, and some kernels read elements.
"""

from __future__ import annotations

import torch


def memory_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Return the storage of a tensor."""
    return tensor.untyped_storage()


def _bytes(storage: torch.UntypedStorage) -> torch.Tensor:
    """Return a tensor over a whole storage."""
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


class Journal:
    """The storages that a capture has written to, which are kept alive meanwhile."""

    def __init__(self) -> None:
        self._own: dict[int, torch.UntypedStorage] = {}
        #: memory without GPU data: if the two cannot be told apart, it may be the host's
        self._values: dict[int, torch.UntypedStorage] = {}
        self._kept: dict[int, tuple[torch.UntypedStorage, torch.Tensor]] = {}

    def adopt(self, tensor: torch.Tensor) -> None:
        """Add memory that was allocated during the capture: it is zeroed at the end, as unwritten memory."""
        storage = memory_of(tensor)
        self._own[storage._cdata] = storage

    def note_value(self, tensor: torch.Tensor) -> None:
        """Record a tensor whose value may be the host's."""
        storage = memory_of(tensor)
        self._values[storage._cdata] = storage

    def owns(self, tensor: torch.Tensor) -> bool:
        """Return whether the capture allocated it."""
        return memory_of(tensor)._cdata in self._own

    def is_value(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor was created during the capture, without GPU data in it."""
        return memory_of(tensor)._cdata in self._values

    def spoil(self, tensor: torch.Tensor) -> None:
        """Record that GPU data was written into a tensor."""
        self._values.pop(memory_of(tensor)._cdata, None)

    def keep(self, tensor: torch.Tensor) -> None:
        """Save a tensor that is about to be written."""
        storage = memory_of(tensor)
        if storage._cdata in self._own or storage._cdata in self._kept or not storage.nbytes():
            return
        self._kept[storage._cdata] = storage, _bytes(storage).clone()

    def put_back(self) -> list[torch.UntypedStorage]:
        """Undo the capture's writes; return the memory that it allocated."""
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
    """Host memory that one call writes: restored at once, since the host can read it."""

    def __init__(self, written: list[torch.Tensor]) -> None:
        self._kept = [(tensor, tensor.clone()) for tensor in written]

    def put_back(self) -> None:
        """Undo the writes of the call."""
        for tensor, kept in self._kept:
            tensor.copy_(kept)
