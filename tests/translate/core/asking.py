"""Code of other modules: who asks is known by the module's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def asked_by(module: str | None, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function from code of a module and return its result."""
    names: dict[str, Any] = {"__name__": module, "function": function, "args": args}
    exec(compile("def call():\n    return function(*args)", f"<{module}>", "exec"), names)
    return names["call"]()
