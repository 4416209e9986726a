"""Collectives inside compiled code: the group is given the device's tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from harness import VIRTUAL, in_child

from .ranks import spread

TWO = VIRTUAL.with_settings(devices=2)


def _step(rank: int, size: int) -> list[Any]:
    import torch.distributed._functional_collectives as collectives

    def function(x: torch.Tensor) -> Any:
        total = collectives.all_reduce(x * 2, "sum", dist.group.WORLD)
        every = collectives.all_gather_tensor(x + total, 0, dist.group.WORLD)
        return total + 1, every * 2

    x = torch.full((3,), rank + 1.0, device="cuda")
    made = torch.compile(function, fullgraph=True)(x)
    assert all(each.is_cuda for each in made)
    return [each.tolist() for each in made]


def collect() -> list[Any]:
    return spread(_step, 2)


@pytest.mark.native
@pytest.mark.slow
def test_compiled_code_collects() -> None:
    assert in_child(collect, TWO, seconds=300) == [[[7.0] * 3, [14.0] * 3 + [16.0] * 3]] * 2
