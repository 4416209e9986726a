"""``--streams adversarial``: collectives take their inputs late and write their outputs late, as CUDA may."""

from __future__ import annotations

from typing import Any

import pytest
from harness import VIRTUAL, in_child

from . import deferred
from .ranks import spread

TWO = VIRTUAL.with_settings(devices=2, streams=0)
pytestmark = TWO.marks
N, SEEDS = deferred.N, len(deferred.SEEDS)


def run(name: str, *args: Any) -> list[Any]:
    """Run a function of deferred.py on two ranks."""
    return spread(getattr(deferred, name), 2, *args)


@pytest.mark.parametrize(
    ("kind", "right"), [("all_reduce", (6, 6)), ("all_gather", (6, 6)), ("exchange", (4, 2))], ids=str
)
def test_results_that_are_used_without_a_wait(kind: str, right: tuple[int, int]) -> None:
    for rank, found in enumerate(in_child(run, TWO, "use_results", kind, True)):
        assert found == [right[rank] * N] * SEEDS
    for rank, found in enumerate(in_child(run, TWO, "use_results", kind, False)):
        assert set(found) != {right[rank] * N}


@pytest.mark.parametrize(
    ("kind", "right"), [("all_reduce", (2, 2)), ("all_gather", (3, 3)), ("exchange", (2, 1))], ids=str
)
def test_inputs_that_are_rewritten_without_a_wait(kind: str, right: tuple[int, int]) -> None:
    for rank, found in enumerate(in_child(run, TWO, "rewrite_inputs", kind, True)):
        assert found == [right[rank] * N] * SEEDS
    for rank, found in enumerate(in_child(run, TWO, "rewrite_inputs", kind, False)):
        assert set(found) != {right[rank] * N}


def test_every_wait() -> None:
    expected = dict.fromkeys(deferred.WAITS, [3.0 * N] * SEEDS)
    assert in_child(run, TWO, "wait_in_every_way") == [expected, expected]


def test_a_rank_that_waits_for_another_one_outside_of_the_gpu() -> None:
    assert in_child(run, TWO, "wait_outside") == [3.0 * N] * 2


def test_groups_in_another_order_on_each_rank() -> None:
    assert in_child(run, TWO, "use_two_groups") == [6.0 * N] * 2
