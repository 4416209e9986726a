"""NCCL's collectives on every driver's tensors, against what the host computes."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, in_child

from .collecting import EVERY, ON_MPS, collect
from .ranks import spread

TWO = VIRTUAL.with_settings(devices=2)


def collected(size: int, names: list[str]) -> list[list[str]]:
    return spread(collect, size, names)


def _names(dtypes: tuple[torch.dtype, ...]) -> list[str]:
    return [str(dtype).removeprefix("torch.") for dtype in dtypes]


_FEW = (torch.float32, torch.bool)


@pytest.mark.parametrize(
    ("where", "size", "dtypes"),
    [
        pytest.param(TWO, 2, EVERY, marks=TWO.marks, id="virtual"),
        pytest.param(TWO.with_settings(streams=1), 2, EVERY, marks=TWO.marks, id="deferred"),
        pytest.param(CPU, 2, _FEW, id="cpu"),
        pytest.param(MPS_FAITHFUL, 2, _FEW, marks=MPS_FAITHFUL.marks, id="mps"),
        pytest.param(VIRTUAL.with_settings(devices=3), 3, EVERY, marks=[*TWO.marks, pytest.mark.slow], id="virtual 3"),
        pytest.param(TWO, 4, _FEW, marks=[*TWO.marks, pytest.mark.slow], id="virtual 4 on 2"),
        pytest.param(VIRTUAL, 4, _FEW, marks=[*TWO.marks, pytest.mark.slow], id="virtual 4 on 1"),
        pytest.param(CPU, 3, EVERY, marks=pytest.mark.slow, id="cpu 3"),
        pytest.param(MPS_FAITHFUL, 3, ON_MPS, marks=[*MPS_FAITHFUL.marks, pytest.mark.slow], id="mps 3"),
    ],
)
def test_collectives(where: ChildConfig, size: int, dtypes: tuple[torch.dtype, ...]) -> None:
    found: list[Any] = in_child(collected, where, size, _names(dtypes), seconds=300)
    assert found == [[]] * size


def broadcast_in_a_callback(rank: int, size: int) -> list[list[float]]:
    first, second = torch.full((2,), 1.0 + rank, device="cuda"), torch.full((3,), 1.0 + rank, device="cuda")

    def callback(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
        dist.broadcast(second, 0)
        return done.value()[0]

    chained = dist.all_reduce(first, async_op=True).get_future().then(callback)
    time.sleep(rank)  # a rank that is late has run its callback, whenever that runs
    last = torch.ones(5, device="cuda")
    dist.all_reduce(last)
    return [chained.wait().tolist(), torch.cat([second, last]).tolist()]


def broadcasts_in_callbacks() -> list[Any]:
    return spread(broadcast_in_a_callback, 2)


@pytest.mark.parametrize("settings", [{}, {"check_streams": "error"}, {"streams": 1}], ids=str)
def test_a_callback_runs_where_it_is_added(settings: dict[str, Any]) -> None:
    """Collectives of callbacks come in the same order on every rank, as with NCCL."""
    where = TWO.with_settings(**settings)
    assert in_child(broadcasts_in_callbacks, where) == [[[3.0] * 2, [1.0] * 3 + [2.0] * 5]] * 2
