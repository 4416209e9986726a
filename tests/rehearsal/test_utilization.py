"""With ``--clock gpu``, utilization is the share of the last second of the GPU's clock in which it computed."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from harness import ChildConfig, child

from torchdevice_cuda.monitoring import publishing, readings

REHEARSED = ChildConfig("virtual rehearsed", {"driver": "virtual", "rehearse": "on", "gpu": "h200"})
SMI = [sys.executable, "-m", "torchdevice_cuda", "nvidia-smi"]
QUERY = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
S = 1_000_000_000


def write_page(*clock: int) -> bytes:
    page = bytearray(publishing.PAGE)
    struct.pack_into(f"{len(clock)}q", page, 8 * publishing.CLOCK_CELL, *clock)
    return bytes(page)


@pytest.mark.parametrize(
    ("now", "stands_since", "device", "percent"),
    [
        pytest.param(10 * S, 0, (30 * S, S // 2, S), 50, id="at the end of the last work"),
        pytest.param(8 * S, 0, (30 * S, S // 2, S), 50, id="before it"),
        pytest.param(10 * S, 0, (30 * S, S // 10, S // 5), 50, id="after a fifth of a second"),
        pytest.param(10 * S + S // 2, 0, (30 * S, S, S), 50, id="half a second later"),
        pytest.param(10 * S + S // 5, 0, (30 * S, S // 5, S // 5), 50, id="measured for a fifth, idle for a fifth"),
        pytest.param(11 * S, 0, (30 * S, S, S), 0, id="a second later"),
        pytest.param(99 * S, 10 * S, (30 * S, S, S), 100, id="while the clock stands still"),
        pytest.param(99 * S, 0, (0, 0, 0), 0, id="no work"),
    ],
)
def test_share_of_the_last_second(now: int, stands_since: int, device: tuple[int, int, int], percent: int) -> None:
    page = write_page(1, 20 * S, stands_since, *device)
    assert readings.read_busy(page, now)[0] == percent


def test_host_clock_has_no_share() -> None:
    assert readings.read_busy(write_page(0, 0, 0, S, S, S), S) == []


def watch(work: Callable[[], Any]) -> tuple[int, int]:
    """Return the utilization of the first GPU that another process and this one see while the program works.

    Utilization is of the last second, and the program has begun before it.
    """
    import torch

    began = time.monotonic()
    while time.monotonic() < began + 1.5:
        work()
    with subprocess.Popen([*SMI, *QUERY], stdout=subprocess.PIPE, text=True) as smi:
        while smi.poll() is None:
            for _ in range(100):
                work()
        assert smi.stdout is not None
        return int(smi.stdout.readline()), torch.cuda.utilization()


@child(REHEARSED, alone=True)
def test_program_bound_by_launches_uses_little_of_a_gpu() -> None:
    import torch

    x = torch.zeros(1 << 15, device="cuda")

    def work() -> None:
        sum(range(2000))  # takes the host longer than any GPU needs for the addition
        x.add_(1)

    seen = watch(work)
    assert all(0 < percent < 60 for percent in seen), seen


@child(REHEARSED, alone=True)
def test_program_bound_by_products_uses_all_of_a_gpu() -> None:
    import torch

    x = torch.zeros(8192, 8192, device="cuda")
    x @ x
    torch.cuda.synchronize()
    seen = watch(lambda: x @ x)
    assert all(percent >= 95 for percent in seen), seen
    torch.cuda.synchronize()
