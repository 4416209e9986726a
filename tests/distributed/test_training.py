"""Training in several processes: the losses are those of one."""

from __future__ import annotations

import functools

import pytest
from harness import CPU, MPS_FAITHFUL, STOCK, VIRTUAL, ChildConfig, in_child

from .ranks import spread
from .training import alone, trained

WAYS = [
    "ddp",
    "ddp_in_views",
    "ddp_that_finds_unused",
    "ddp_with_a_hook",
    "zero",
    "fsdp",
    "fsdp2",
    "fsdp2_loaded",
    "tensor",
    "pipeline",
]


def losses(size: int, ways: list[str], steps: int) -> list[dict[str, list[float]]]:
    return spread(trained, size, ways, steps)


@functools.cache
def of_one_process(steps: int) -> list[float]:
    found: list[float] = in_child(alone, STOCK.when("after"), steps)
    return found


@pytest.mark.parametrize(
    ("where", "size", "ways", "steps"),
    [
        pytest.param(VIRTUAL.with_settings(devices=2), 2, WAYS, 4, marks=VIRTUAL.marks, id="virtual"),
        pytest.param(
            VIRTUAL.with_settings(devices=2, check_streams="error"), 2, WAYS, 2, marks=VIRTUAL.marks, id="checked"
        ),
        pytest.param(
            VIRTUAL.with_settings(devices=2, streams=1),
            2,
            WAYS,
            2,
            marks=[*VIRTUAL.marks, pytest.mark.slow],
            id="deferred",
        ),
        pytest.param(
            MPS_FAITHFUL, 2, ["ddp", "ddp_with_a_hook", "fsdp2_loaded"], 2, marks=MPS_FAITHFUL.marks, id="mps"
        ),
        pytest.param(CPU, 2, ["ddp", "ddp_with_a_hook", "fsdp2"], 2, marks=pytest.mark.slow, id="cpu"),
        pytest.param(
            VIRTUAL.with_settings(devices=4), 4, WAYS, 20, marks=[*VIRTUAL.marks, pytest.mark.slow], id="virtual 4"
        ),
        pytest.param(
            VIRTUAL.with_settings(devices=2), 2, WAYS, 20, marks=[*VIRTUAL.marks, pytest.mark.slow], id="virtual 20"
        ),
    ],
)
def test_losses(where: ChildConfig, size: int, ways: list[str], steps: int) -> None:
    expected = pytest.approx(of_one_process(steps), abs=1e-5)
    for found in in_child(losses, where, size, ways, steps, seconds=300):
        assert found == dict.fromkeys(ways, expected)
