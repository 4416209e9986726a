"""Programs as repositories have them, under both policies: the numbers are stock torch's on the CPU.

The programs are in ``programs/``; those of one place run in one process. Data and weights come from NumPy, since random
numbers of the device are a sequence of its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import BOTH_POLICIES, ChildConfig, run_forked
from harness.places import must_be_ready

from torchdevice_cuda._compat import torch_release

PROGRAMS = Path(__file__).parent / "programs"
NAMES = tuple(sorted(path.stem for path in PROGRAMS.glob("[!_]*.py")))
#: Which releases of torch have what a program needs on an Apple GPU; a wheel of 2.8 for macOS has no such kernel.
SINCE = {"sparse": (2, 9)}
#: float32, summed in another order, and halves of it where float64 becomes float32.
TOLERANCE = {"rel": 1e-3, "abs": 1e-4}

Reports = dict[str, dict[str, Any]]


def _run(*options: str, environment: dict[str, str] | None = None) -> Reports:
    """Return each program's report, or its error."""
    done = run_forked(*options, PROGRAMS / "_run.py", *NAMES, environment=environment, timeout=600)
    lines = [line.removeprefix("RESULT ") for line in done.out.splitlines() if line.startswith("RESULT ")]
    return {given["program"]: given for given in map(json.loads, lines)}


@pytest.fixture(scope="module")
def stock() -> Reports:
    return _run()


@pytest.fixture(
    scope="module", params=[pytest.param(place, marks=place.marks, id=str(place)) for place in BOTH_POLICIES]
)
def ours(request: pytest.FixtureRequest) -> Reports:
    place: ChildConfig = request.param
    must_be_ready(place)
    options = [text for name, value in place.settings.items() for text in (f"--{name}", value)]
    return _run("-m", "torchdevice_cuda", *options, environment=place.full_environment())


@pytest.mark.parametrize("program", NAMES)
def test_program(ours: Reports, stock: Reports, program: str) -> None:
    if torch_release(torch.__version__) < SINCE.get(program, (0, 0)):
        pytest.skip(f"torch has no tensors for {program!r} on MPS yet")
    for given in (stock[program], ours[program]):
        assert "error" not in given, given["error"]
    _compare(ours[program]["result"], stock[program]["result"], program)


def _compare(ours: Any, stock: Any, where: str) -> None:
    """Compare structures: numbers within the tolerance, all else equal."""
    if isinstance(stock, dict):
        assert ours.keys() == stock.keys(), where
        for key in stock:
            _compare(ours[key], stock[key], f"{where}.{key}")
    elif isinstance(stock, list):
        assert len(ours) == len(stock), where
        for number, (one, other) in enumerate(zip(ours, stock, strict=True)):
            _compare(one, other, f"{where}[{number}]")
    elif isinstance(stock, float):
        assert ours == pytest.approx(stock, **TOLERANCE), where
    else:
        assert ours == stock, where
