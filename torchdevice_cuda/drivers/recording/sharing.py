"""Memory of a graph that nobody but the graph has: results that do not live at the same time share it.

A capture keeps all that was computed, so that everything has a place of its own. When it has ended it shows what the
program still holds; the rest lives from the call that makes it to the last that reads it, as it would without a graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

_SET = torch._C.TensorBase.set_
#: How much larger than what is asked for memory may be that is used again.
_SLACK = 2


@dataclasses.dataclass
class _Life:
    """Memory that the graph made, and who of the graph's own tensors lies in it."""

    storage: torch.UntypedStorage
    first: int
    last: int
    tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)

    def is_held_by_others(self) -> bool:
        """Whether there is more than our tensors and the object that is asked."""
        count: int = torch._C._storage_Use_Count(self.storage._cdata)
        return count > len(self.tensors) + 1

    def can_move(self) -> bool:
        """Whether all of its tensors are what ``set_`` makes of them again."""
        return not any(tensor.is_conj() or tensor.is_neg() or tensor.is_quantized for tensor in self.tensors)

    def move(self, storage: torch.UntypedStorage) -> None:
        """Lie elsewhere."""
        for tensor in self.tensors:
            _SET(tensor, storage, tensor.storage_offset(), tensor.size(), tensor.stride())
        self.storage = storage


def _lives(own: Iterable[torch.UntypedStorage], used: list[tuple[int, torch.Tensor]]) -> list[_Life]:
    """The lives of memory that was made in the capture, in the order in which they begin."""
    found = {storage._cdata: _Life(storage, len(used), -1) for storage in own}
    for place, tensor in used:
        life = found.get(tensor.untyped_storage()._cdata)
        if life is not None:
            life.first, life.last = min(life.first, place), max(life.last, place)
            life.tensors.append(tensor)
    return sorted((life for life in found.values() if life.tensors), key=lambda life: life.first)


def share(own: Iterable[torch.UntypedStorage], used: list[tuple[int, torch.Tensor]]) -> None:
    """Have memory used again; ``used``: the tensors of the graph's calls, by the places of the calls."""
    living: list[_Life] = []
    free: list[torch.UntypedStorage] = []
    for life in _lives(own, used):
        if not life.storage.nbytes() or life.is_held_by_others() or not life.can_move():
            continue
        free += [other.storage for other in living if other.last < life.first]
        living = [other for other in living if other.last >= life.first]
        size, device = life.storage.nbytes(), life.storage.device
        fitting = [one for one in free if one.device == device and size <= one.nbytes() <= _SLACK * size]
        if fitting:
            best = min(fitting, key=lambda one: one.nbytes())
            free = [one for one in free if one is not best]
            life.move(best)
        living.append(life)
