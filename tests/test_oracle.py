"""Our own oracle: what a real GPU answered to our probes, asked of every driver (tools/oracle, tests/oracle)."""

from __future__ import annotations

import json

import pytest
from harness import CPU, VIRTUAL, Place, run_forked
from harness.places import must_be_ready
from harness.processes import ROOT

TOOL = ROOT / "tools" / "oracle"
GOLDEN = json.loads((ROOT / "tests" / "oracle" / "golden-2.11-h200.json").read_text())
#: Areas that are asked on every change; the others, and the other drivers, among the slow tests.
QUICK = ("conversions", "dtypes", "kernels", "legacy", "rng", "serialization")


def compared(where: Place, *words: str) -> str:
    must_be_ready(where)
    done = run_forked(TOOL, "compare", "--driver", str(where.driver), *words, check=False, timeout=1500)
    assert done.status == 0, done
    return done.out


def test_the_record_is_of_a_gpu_and_large_enough() -> None:
    assert set(GOLDEN["about"]) == {"torch", "cuda", "gpu", "python", "date"}
    assert GOLDEN["about"]["gpu"].startswith("NVIDIA")
    assert len(GOLDEN["answers"]) >= 250


@pytest.mark.native
def test_what_is_asked_on_every_change() -> None:
    out = compared(VIRTUAL, *(f"--only={area}" for area in QUICK))
    assert "facts as on" in out


@pytest.mark.slow
@pytest.mark.parametrize("where", [pytest.param(place, marks=place.marks, id=str(place)) for place in (VIRTUAL, CPU)])
def test_all(where: Place) -> None:
    compared(where, "--slow")
