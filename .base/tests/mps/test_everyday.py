"""Programs as repositories have them, under both policies: the numbers are stock torch's on the CPU.

The programs are in ``programs/``; those of one place run in one process. Data and weights come from NumPy, since random
numbers of the device are a sequence of its own.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import clean_environment

PROGRAMS = Path(__file__).parent / "programs"
NAMES = tuple(sorted(path.stem for path in PROGRAMS.glob("[!_]*.py")))
#: float32, summed in another order, and halves of it where float64 becomes float32.
TOLERANCE = {"rel": 1e-3, "abs": 1e-4}


def _run(*options: str, **environment: str) -> dict[str, dict[str, Any]]:
    """What each program reports, or its error."""
    done = subprocess.run(
        [sys.executable, *options, str(PROGRAMS / "_run.py"), *NAMES],
        capture_output=True,
        text=True,
        timeout=600,
        env=clean_environment(**{"OMP_NUM_THREADS": "1", **environment}),
    )
    assert done.returncode == 0, done.stderr
    lines = [line.removeprefix("RESULT ") for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    return {given["program"]: given for given in map(json.loads, lines)}


@functools.cache
def _stock() -> dict[str, dict[str, Any]]:
    return _run()


@functools.cache
def _ours(policy: str) -> dict[str, dict[str, Any]]:
    return _run("-m", "torchdevice_cuda", "--driver", "mps", "--policy", policy, TORCHDEVICE_EMULATE_MPS="1")


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
@pytest.mark.parametrize("program", NAMES)
def test_program(emulated: dict[str, str], program: str, policy: str) -> None:
    stock, ours = _stock()[program], _ours(policy)[program]
    for given in (stock, ours):
        assert "error" not in given, given["error"]
    _compare(ours["result"], stock["result"], program)


def _compare(ours: Any, stock: Any, where: str) -> None:
    """The same structure, every number within the tolerance, all else equal."""
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
