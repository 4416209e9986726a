"""Threads that are at work on the device hold nobody up and change no exit status, however the process ends."""

from __future__ import annotations

import itertools
import signal
import time
from pathlib import Path

import pytest
from harness import VIRTUAL, Finished, python, run_forked
from harness.places import must_be_ready

BUSY = Path(__file__).parent / "programs" / "busy.py"
WORK = (
    "endless backward",
    "sleeping backward",
    "backward",
    "kernel",
    "operators",
    "stream",
    "out of memory",
    "history",
)
#: Which of them is at work in a new process; in the others torch is imported by the process that they are forks of.
NEW = "endless backward"
#: How a program ends, and the exit statuses that it may have then: an interrupt ends Python with a signal of its own.
ENDINGS = {
    "exit": {7},
    "error": {1},
    "return": {0},
    "at once": {7},
    "SIGTERM": {-signal.SIGTERM},
    "SIGINT": {-signal.SIGINT, 128 + signal.SIGINT},
}
#: Seconds that autograd's threads are given, by torch's own setting.
LIMIT = 1
pytestmark = [pytest.mark.native]


def _ended(work: str, ending: str, limit: float = LIMIT) -> Finished:
    must_be_ready(VIRTUAL)
    words = ("-m", "torchdevice_cuda", "--driver", "virtual", BUSY, work, ending)
    given = {"environment": {"TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT": str(limit)}, "check": False, "timeout": 90}
    return python(*words, **given) if work == NEW else run_forked(*words, **given, whole=True)


def _check(work: str, ending: str) -> None:
    done = _ended(work, ending)
    assert not done.killed, done
    assert done.out == "ending\n"
    assert done.status in ENDINGS[ending], done
    for words in ("terminate called", "Fatal Python error", "Segmentation fault"):
        assert words not in done.err


@pytest.mark.parametrize("work", WORK)
def test_the_exit_status_is_the_programs(work: str) -> None:
    _check(work, "exit")


@pytest.mark.slow
@pytest.mark.parametrize(("work", "ending"), list(itertools.product(WORK, ENDINGS)))
def test_every_ending(work: str, ending: str) -> None:
    for _ in range(3):
        _check(work, ending)


@pytest.mark.slow
def test_threads_have_as_long_as_torchs_engine_gives_them() -> None:
    took = []
    for limit in (0, 6):
        done = _ended("sleeping backward", "exit", limit)
        assert done.status == 7
        took.append(time.time() - float(done.err.splitlines()[-1]))  # not how long it took to start
    assert took[0] < 5 < took[1] < 11  # once, not once more by the engine itself
