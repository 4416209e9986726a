"""The translation core: makes ``device="cuda"`` work, by changing torch through one registry of patches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..report.departures import departures
from ..report.unsupported import place, unsupported

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..report import Counters
    from ..settings import Settings
    from .core.context import WhenImported
    from .core.registry import Applied


def apply(driver: Driver, settings: Settings, when_imported: WhenImported, counters: Counters | None = None) -> Applied:
    """Patch torch for a driver, completely or not at all. ``counters``, if given, count the program's requests."""
    from .core import callers, registry
    from .core.context import Context
    from .patches import registered

    context = Context(driver, settings, when_imported, counters)
    departures.time(counters is not None)
    context.editor.on_undo(departures.clear)
    context.editor.on_undo(unsupported.clear)
    place.find = callers.site
    context.editor.on_undo(place.forget)
    return registry.apply(context, registered())
