"""torch.cuda answers as a real GPU's did: expressions, and what they gave there (tests/recorded/facts.py)."""

from __future__ import annotations

import pytest
from harness import CPU, MPS_FAITHFUL, VIRTUAL, ChildConfig, python, run_forked
from harness.places import must_be_ready
from harness.processes import ROOT


@pytest.mark.parametrize(
    "where", [pytest.param(place, marks=place.marks, id=str(place)) for place in (CPU, VIRTUAL, MPS_FAITHFUL)]
)
def test_facts(where: ChildConfig) -> None:
    """Each is as recorded, or as expected/facts.toml says; a line of that which no longer holds is an error, too."""
    must_be_ready(where)
    comparing = (ROOT / "tools" / "record", "compare", "facts", "--driver", where.driver)
    start = python if where is VIRTUAL else run_forked
    done = start(*comparing, environment=where.full_environment(), check=False)
    assert done.status == 0, done
