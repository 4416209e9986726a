"""The report: counts of a program's work on the GPU and of its requests, written at exit to a file or a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .destination import check as check

if TYPE_CHECKING:
    from .collecting import About as About
    from .collecting import Collector as Collector
    from .counters import Counters as Counters
    from .ending import AtExit as AtExit
else:
    #: What only a process with a report uses, and its module, imported when used.
    _LAZY = {"About": "collecting", "Collector": "collecting", "Counters": "counters", "AtExit": "ending"}

    def __getattr__(name: str) -> Any:
        """Import one of the lazy names."""
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import importlib

        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
