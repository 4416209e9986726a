"""Properties that hold for any input (hypothesis); the same inputs in every run, more of them under ``-m slow``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis
import pytest


def examples(few: int, many: int) -> pytest.MarkDecorator:
    """Choose how many inputs a test tries: a few seconds' worth, or more in slow tests."""
    return pytest.mark.parametrize("number", [few, pytest.param(many, marks=pytest.mark.slow)])


def holds(check: Callable[..., None], number: int) -> None:
    """Try a check that says its inputs with ``hypothesis.given``."""
    settings = hypothesis.settings(
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    settings(check)()


def drawn(strategy: hypothesis.strategies.SearchStrategy[Any], number: int) -> list[Any]:
    """Different inputs for a child process, which cannot be asked one by one."""
    found: dict[str, Any] = {}

    @hypothesis.given(strategy)
    def draw(value: Any) -> None:
        found.setdefault(repr(value), value)

    holds(draw, number)
    return list(found.values())
