"""Tensors that are known to be somewhere: by themselves, by their memory, and only while they live."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from torchdevice_cuda.translate.core import marks
from torchdevice_cuda.translate.core.marks import Marks, References
from torchdevice_cuda.translate.core.pinned import Pinned


class Thing:
    """Something to know."""


def test_an_object_is_known_while_it_lives() -> None:
    known, one = References(), Thing()
    assert known.holds(one) is False
    known.note(one)
    assert known.holds(one) is True
    assert known.holds(Thing()) is False
    address = id(one)
    del one
    gc.collect()
    other = Thing()
    known.refs[id(other)] = known.refs.pop(address)  # another at the address of one that has died
    assert known.holds(other) is False


def test_dead_tensors_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_SWEEP_ABOVE", 4)
    known, fifth = References(), Thing()
    living = [Thing() for _ in range(2)]
    for each in living:
        known.note(each)
    dead = [Thing() for _ in range(2)]
    for each in dead:
        known.note(each)
    del dead, each
    assert len(known.refs) == 4, "not yet"
    known.note(fifth)
    assert len(known.refs) == 3
    assert all(known.holds(each) for each in (*living, fifth))
    assert known.limit == 6, "twice as many as live"
    more = [Thing() for _ in range(4)]
    for each in more:
        known.note(each)
    assert known.limit == 14
    del more, each, living
    known.sweep()
    assert known.limit == 4, "never fewer than that"


def test_the_cost_of_sweeping_is_constant() -> None:
    """As many looks as there are objects, more or less: the limit grows with what lives."""
    things = [Thing() for _ in range(20_000)]
    sweeps = 0

    class Counting(References):
        def sweep(self) -> None:
            nonlocal sweeps
            sweeps += 1
            super().sweep()

    known = Counting()
    for each in things:
        known.note(each)
    assert 1 <= sweeps <= 4
    assert len(known.refs) == len(things)


# ---------------------------------------------------------------------------------- marks
class Wrapper(torch.Tensor):
    """A tensor around others, which has no memory."""

    @classmethod
    def __torch_dispatch__(cls, *args: Any, **kwargs: Any) -> Any:
        return NotImplemented


def test_a_factory_marks_a_tensor_alone() -> None:
    known, one = Marks(), torch.ones(2)
    assert one not in known
    assert known.add(one) is one
    assert one in known
    assert one.detach() not in known
    assert torch.ones(2) not in known


def test_a_move_marks_all_that_shares_the_memory() -> None:
    known, one = Marks(), torch.ones(4)
    assert known.add_moved(one) is one
    for other in (one, one.detach(), one[1:], one.view(2, 2), torch.nn.Parameter(one)):
        assert other in known
    for other in (one.clone(), torch.ones(4), one + 1):
        assert other not in known
    view = one[1:]
    del one, other
    gc.collect()
    assert view in known, "as long as its memory lives"


def test_memory_that_has_gone_is_forgotten() -> None:
    known = Marks()
    known.add_moved(torch.ones(4))
    gc.collect()
    assert known._storages == {}


def test_tensors_without_storage_are_marked_themselves() -> None:
    known = Marks()
    sparse, meta = torch.eye(2).to_sparse(), torch.ones(2, device="meta")
    for each in (sparse, meta):
        assert known.add_moved(each) is each
        assert each in known
    assert known._storages == {}
    assert torch.eye(2).to_sparse() not in known
    assert torch.ones(2, device="meta") not in known
    known.add_moved(torch.ones(1))
    assert "no tensor" not in known  # type: ignore[operator]
    assert Wrapper._make_wrapper_subclass(Wrapper, (2,)) not in known


# --------------------------------------------------------------------------------- pinned
def test_pinned_memory() -> None:
    registered: dict[int, int] = {}
    pinned, one = Pinned(registered), torch.ones(4)
    assert one not in pinned
    assert pinned.adopt(one) is one
    assert one in pinned
    assert one[2:] in pinned, "known by its memory"
    assert torch.ones(4) not in pinned
    assert torch.eye(2).to_sparse() not in pinned
    empty = torch.empty(0)
    assert pinned.adopt(empty) is empty
    assert empty not in pinned
    assert torch.empty(0) not in pinned
    del one
    gc.collect()
    assert pinned._storages == {}


def test_memory_that_the_program_registered() -> None:
    registered: dict[int, int] = {}
    pinned, one = Pinned(registered), torch.ones(4)
    address = one.untyped_storage().data_ptr()
    for start, size, inside in ((0, 16, True), (-8, 8, False), (-8, 9, True), (1, 16, False), (0, 1, True)):
        registered.clear()
        registered[address + start] = size
        assert (one in pinned) is inside, (start, size)
    registered[1] = 1
    assert one in pinned
