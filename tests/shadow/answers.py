"""Errors of calls and contents of modules, for tables of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def error(function: Callable[[], Any]) -> tuple[str, str]:
    """Return the name of the type of what a call raises, and its first line; a call that raises nothing has none."""
    try:
        function()
    except Exception as raised:
        return type(raised).__name__, str(raised).splitlines()[0]
    return "", ""


def public(module: object) -> list[str]:
    """Return the names of a module that are for others."""
    return sorted(name for name in dir(module) if not name.startswith("_"))
