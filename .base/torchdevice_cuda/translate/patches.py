"""The registry of patches: one documented function each, applied in order and undone backwards.

A patch function is given an :class:`Editor` and the driver, and changes torch only through the editor, which remembers
what was there.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..report import write_at_exit
from ..report.departures import departures

if TYPE_CHECKING:
    from ..drivers import Driver
    from ..settings import Settings

_MISSING = object()
#: Modules that register patches, in the order in which their patches are applied.
MODULES = (
    "version",
    "generic",
    "accelerator",
    "backends",
    "factories",
    "tensors",
    "apple",
    "float64",
    "pinning",
    "random",
    "storages",
    "legacy",
    "modules",
    "loading",
    "amp",
    "optimizers",
    "parallel",
    "distributed",
    "compiling",
    "processes",
    "yielding",
    "identity",
    "errors",
    "fallbacks",
    "bound_earlier",
)


class Editor:
    """Sets attributes and remembers what they replaced; carries what the patches share."""

    def __init__(self, driver: Driver, settings: Settings) -> None:
        from .devices import Translator
        from .errors import Errors
        from .float64 import Precision
        from .pinning import Pinned

        self.settings = settings
        self.translator = Translator(driver, settings)
        self.pinned = Pinned(driver)
        self.errors = Errors(driver, settings.identity == "cuda")
        self.precision = Precision(settings.float64, driver.device_type)
        #: originals by id, with their wrappers
        self.wrapped: dict[int, tuple[Any, Any]] = {}
        self._undo: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        """``owner.name = value``, to be undone."""
        before = vars(owner).get(name, _MISSING)
        self._undo.append((owner, name, before))
        setattr(owner, name, value)

    def remove(self, owner: Any, name: str) -> None:
        """``del owner.name``, to be undone."""
        self._undo.append((owner, name, vars(owner)[name]))
        delattr(owner, name)

    def item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """``table[key] = value``, to be undone."""
        self._undo.append((_Table(table), key, table.get(key, _MISSING)))
        table[key] = value

    def on_undo(self, action: Callable[[], None]) -> None:
        """Have something else done when the patches are taken out."""
        self._undo.append((_Action(action), "", _MISSING))

    def undo(self) -> None:
        """Put back everything, latest first."""
        while self._undo:
            owner, name, before = self._undo.pop()
            if isinstance(owner, _Action):
                owner.run()
            elif isinstance(owner, _Table):
                owner.restore(name, before)
            elif before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)


@dataclasses.dataclass
class _Action:
    """Something to do when the patches are taken out."""

    run: Callable[[], None]


@dataclasses.dataclass
class _Table:
    """A dictionary whose entry was set."""

    table: dict[Any, Any]

    def restore(self, key: Any, before: Any) -> None:
        """Put the entry back, or remove it if there was none."""
        if before is _MISSING:
            self.table.pop(key, None)
        else:
            self.table[key] = before


@dataclasses.dataclass(frozen=True)
class Patch:
    """One registered patch."""

    name: str
    apply: Callable[[Editor, Driver], None]
    why: str
    drivers: frozenset[str] | None  # None: every driver but real CUDA


_registry: dict[str, Patch] = {}


def patch(*drivers: str) -> Callable[[Callable[[Editor, Driver], None]], Callable[[Editor, Driver], None]]:
    """Register a patch for these drivers; for every driver but real CUDA if none is named."""

    def register(function: Callable[[Editor, Driver], None]) -> Callable[[Editor, Driver], None]:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        why = (function.__doc__ or "").strip().splitlines()[0]
        _registry[name] = Patch(name, function, why, frozenset(drivers) or None)
        return function

    return register


def registered() -> tuple[Patch, ...]:
    """Every patch there is, in order."""
    for module in MODULES:
        importlib.import_module(f"{__package__}.{module}")
    # Modules import each other: the order of the list is what counts, not that of the imports.
    places = {module: place for place, module in enumerate(MODULES)}
    return tuple(sorted(_registry.values(), key=lambda entry: places.get(entry.name.partition(".")[0], len(places))))


class Applied:
    """The patches in force."""

    def __init__(self, editor: Editor, patches: list[Patch]) -> None:
        self._editor = editor
        self.patches = tuple(patches)

    def undo(self) -> None:
        """Take all of them out."""
        self._editor.undo()


def apply(driver: Driver, settings: Settings) -> Applied:
    """Apply the driver's patches; all of them or none."""
    editor = Editor(driver, settings)
    editor.on_undo(departures.clear)
    if editor.translator.counters is not None and settings.report is not None:
        editor.on_undo(write_at_exit(editor.translator.counters.tables, settings.report))
    done: list[Patch] = []
    try:
        for entry in registered():
            wanted = driver.name != "cuda" if entry.drivers is None else driver.name in entry.drivers
            if wanted:
                entry.apply(editor, driver)
                done.append(entry)
    except BaseException:
        editor.undo()
        raise
    return Applied(editor, done)
