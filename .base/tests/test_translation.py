"""``device="cuda"`` means something at every entry point (``cpu`` driver); see ``tests/cases/translation.py``."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from cases import harness
from conftest import ORDERS, run_python

MODULE = "translation"


@functools.cache
def outcome(order: str) -> dict[str, Any]:
    """What became of each case in a process activated in this order."""
    return harness.results(
        run_python(harness.program(MODULE, ORDERS[order].format(settings="driver='cpu'")), timeout=300).stdout
    )


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("case", harness.names(MODULE))
def test_translated(case: str, when: str) -> None:
    got = outcome(when)[case]
    assert "error" not in got, got["error"]
