"""Random calls of every binding from several threads: nothing hangs, nothing dies, the books are even at the end."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from harness import VIRTUAL, clean_environment, run
from harness.places import must_be_ready

FUZZING = str(Path(__file__).with_name("fuzzing.py"))


@pytest.mark.native
@pytest.mark.parametrize("seconds", [5, pytest.param(120, marks=pytest.mark.slow)])
def test_random_calls(seconds: int) -> None:
    must_be_ready(VIRTUAL)
    options = ["--driver", "virtual", "--devices", "2", "--memory", "96MiB"]
    words = [*options, FUZZING, str(seconds), str(random.randrange(2**31))]
    done = run(
        [sys.executable, "-m", "torchdevice_cuda", *words], environment=clean_environment(), timeout=seconds + 150
    )
    assert done.status == 0, done
    assert int(done.out.splitlines()[-1].split()[0]) > 100, done
