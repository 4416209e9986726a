"""Has the core load its other parts: when one of their operators is called, or one of their functions is looked up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import parts


def attach(core: Any, kind: str, load: Callable[[str], ModuleType]) -> None:
    """Tell the core of its parts; `load` imports one, and compiles it before if it has to."""
    loaded: set[str] = set()
    # A thread that comes second waits for the first: for as long as a build may take.
    lock = threading.RLock()

    def load_part(part: str) -> None:
        with lock:
            if part in loaded:
                return
            module = load(part)
            for name in parts.parts_of(kind)[part].functions:
                if hasattr(module, name):  # some depend on what torch was built with
                    setattr(core, name, getattr(module, name))
            loaded.add(part)

    def find_function(name: str) -> Any:
        part = parts.find_part(kind, name)
        if part is None or part in loaded:
            raise AttributeError(f"module {core.__name__!r} has no attribute {name!r}")
        load_part(part)
        return getattr(core, name)

    core.set_parts(parts.list_deferred(kind), load_part)
    core.load_part = load_part
    core.__getattr__ = find_function
