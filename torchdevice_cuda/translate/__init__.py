"""The translation core: makes ``device="cuda"`` mean something, by changing torch through one registry of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..report import AtExit
from ..report.departures import departures

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..settings import Settings
    from .core.context import WhenImported
    from .core.registry import Applied


def apply(driver: Driver, settings: Settings, when_imported: WhenImported) -> Applied:
    """Change torch for a driver; all of it or nothing."""
    from .core import registry
    from .core.context import Context
    from .patches import registered

    context = Context(driver, settings, when_imported)
    context.editor.on_undo(departures.clear)
    counters = context.translator.counters
    if counters is not None and settings.report is not None:
        context.editor.on_undo(AtExit(counters, settings.report).write_now)
    return registry.apply(context, registered())
