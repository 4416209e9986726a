"""Ranks whose calls differ: all are told, at once, in the same words, with both values."""

from __future__ import annotations

from typing import Any

import pytest
import torch.distributed as dist
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, in_child

from .disagreeing import agree, disagree, disagreements
from .ranks import spread

_SIZE = 3
#: Of some, what the message has to have of either side.
_BOTH = {
    "reduction": ("ALLREDUCE(SUM) of 10 elements of float32", "ALLREDUCE(MAX) of 10 elements of float32"),
    "mean": ("ALLREDUCE(SUM)", "ALLREDUCE(AVG)"),
    "factor or none": ("ALLREDUCE(SUM)", "ALLREDUCE(PREMUL_SUM)"),
    "type": ("10 elements of float32", "10 elements of int32"),
    "type of eight bits": ("10 elements of float32", "10 elements of float8_e5m2"),
    "size": ("10 elements", "11 elements"),
    "size of nothing": ("10 elements", "0 elements"),
    "collective": ("ALLREDUCE", "BARRIER"),
    "number of collectives": ("BARRIER", "ALLREDUCE", "collective 2 of the process group"),
    "broadcast's root": ("with root 0", "with root 1"),
    "broadcast's size": ("BROADCAST of 40 bytes", "BROADCAST of 44 bytes"),
    "reduce's root": ("REDUCE(SUM) of 10 elements of float32 with root 0", "with root 1"),
    "reduce's reduction": ("REDUCE(PRODUCT)", "REDUCE(MIN)"),
    "gather's root": ("GATHER of 8 bytes with root 0", "GATHER of 8 bytes with root 1"),
    "scatter's root": ("SCATTER of 8 bytes with root 0", "SCATTER of 8 bytes with root 1"),
    "reduce_scatter's reduction": ("REDUCE_SCATTER(SUM)", "REDUCE_SCATTER(MAX)"),
    "reduce_scatter's size": ("REDUCE_SCATTER(SUM) of 30", "REDUCE_SCATTER(SUM) of 33"),
    "all_gather's size": ("ALLGATHER of 40 bytes", "ALLGATHER of 44 bytes"),
    "all_gather's sizes": ("BROADCAST of 4 bytes with root 0, one of 3 tensors", "ALLGATHER of 8 bytes"),
    "splits": ("Rank 0 is sending 4 bytes to Rank 2, which is receiving 8 bytes",),
    "what a rank keeps": ("Rank 2 is sending 4 bytes to Rank 2, which is receiving 8 bytes",),
    "sent": ("Rank 0 is sending 40 bytes to Rank 2, which is receiving 20 bytes",),
    "coalesced": ("one of 3 tensors", "one of 2 tensors"),
    "functional": ("ALLREDUCE(SUM)", "ALLREDUCE(MAX)"),
}
_PLACES = [
    pytest.param(VIRTUAL.with_settings(devices=2), marks=VIRTUAL.marks, id="virtual"),
    pytest.param(CPU, marks=pytest.mark.slow, id="cpu"),
    pytest.param(MPS_FAITHFUL, marks=[*MPS_FAITHFUL.marks, pytest.mark.slow], id="mps"),
]


def disagreeing(size: int, names: list[str]) -> list[dict[str, Any]]:
    return spread(disagree, size, names)


def agreeing(size: int) -> list[dict[str, Any]]:
    return spread(agree, size)


def _cases(where: ChildConfig) -> list[str]:
    names = list(_BOTH)
    # The Apple GPU has no such type. Gloo's own work is what waits for a rank on the CPU: it has Gloo's words.
    left_out = {"mps": ("type of eight bits",), "cpu": ("sent", "functional")}
    return [name for name in names if name not in left_out.get(str(where.settings.get("driver")), ())]


def test_every_case_has_its_words() -> None:
    assert list(_BOTH) == list(disagreements(0, _SIZE, None))


@pytest.mark.parametrize("where", _PLACES)
def test_all_ranks_report_both_values(where: ChildConfig) -> None:
    names = _cases(where)
    found = in_child(disagreeing, where, _SIZE, names, seconds=300)
    for name in names:
        said = [one[name][0] for one in found]
        assert said == said[:1] * _SIZE, name
        assert said[0].startswith("Detected mismatch between collectives on ranks. "), name
        missing = [words for words in _BOTH[name] if words not in said[0]]
        assert not missing, (name, said[0])
        # The group's timeout is three times as long; a first call imports what it needs.
        assert max(one[name][1] for one in found) < 10, name


@pytest.mark.parametrize("where", _PLACES)
def test_differences_that_nccl_does_not_see_are_allowed(where: ChildConfig) -> None:
    assert in_child(agreeing, where, _SIZE) == [{}] * _SIZE


def _make_groups(rank: int, size: int) -> list[str]:
    said = []
    for ranks in ([0, 1] if rank == 0 else [0, 1, 2], [0, 1]):
        try:
            dist.new_group(ranks)
            said.append("nothing")
        except RuntimeError as error:
            said.append(str(error))
    dist.barrier()  # the first rank has the store, which the others may still wait for
    return said


def make_groups(size: int) -> list[list[str]]:
    return spread(_make_groups, size)


@pytest.mark.native
def test_ranks_that_make_a_group_of_other_ranks() -> None:
    begun = "Detected mismatch between ranks of a process group. Rank 0 makes it of ranks 0, 1, but "
    found = in_child(make_groups, VIRTUAL.with_settings(devices=2), _SIZE)
    assert [said[0] for said in found] == [f"{begun}Rank {other} of ranks 0, 1, 2." for other in (1, 1, 2)]
    assert [said[1] for said in found] == ["nothing"] * _SIZE
