"""Our own oracle: what a real GPU answered to our probes, asked of every driver (tests/recorded/oracle)."""

from __future__ import annotations

import pytest
from harness import CPU, VIRTUAL, ChildConfig, python
from harness.places import must_be_ready
from harness.processes import ROOT

#: Areas that are asked on every change; the others, and the other drivers, among the slow tests.
QUICK = ("conversions", "dtypes", "kernels", "legacy", "rng", "serialization")


def compared(where: ChildConfig, *words: str) -> str:
    must_be_ready(where)
    comparing = (ROOT / "tools" / "record", "compare", "oracle", "--driver", str(where.driver))
    done = python(*comparing, *words, check=False, timeout=1500)
    assert done.status == 0, done
    return done.out


@pytest.mark.native
def test_quick_areas() -> None:
    out = compared(VIRTUAL, *(f"--only={area}" for area in QUICK))
    assert "facts as on" in out


@pytest.mark.slow
@pytest.mark.parametrize("where", [pytest.param(place, marks=place.marks, id=str(place)) for place in (VIRTUAL, CPU)])
def test_all(where: ChildConfig) -> None:
    compared(where, "--slow")
