"""The registry of patches: one documented function each, selected by traits, applied in order and undone in reverse.

A patch declares its targets in torch, the traits of the drivers that it is for, and the reason. It changes torch only
through the context's editor.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...drivers.traits import NONE, Trait

if TYPE_CHECKING:
    from .context import Context
    from .editor import Editor

#: The folder that contains the package.
_ROOT = Path(__file__).resolve().parents[3]
Apply = Callable[["Context"], None]
#: ``<name>`` in a target matches any of several names that are listed elsewhere.
_SEVERAL = re.compile(r"<\w+>")


@dataclasses.dataclass(frozen=True)
class Patch:
    """One registered patch."""

    name: str
    module: str
    targets: tuple[str, ...]
    apply: Apply
    why: str
    traits: Trait
    without: Trait = NONE

    @property
    def file(self) -> str:
        """Return its file, relative to the repository."""
        path = Path(self.apply.__code__.co_filename)
        return path.relative_to(_ROOT).as_posix() if path.is_relative_to(_ROOT) else str(path)

    def wanted(self, traits: Trait) -> bool:
        """Return whether it applies to a driver with these traits."""
        return self.traits in traits and not self.without & traits

    def covers(self, target: str) -> bool:
        """Return whether a name in torch is among its targets."""
        return any(_pattern(declared).fullmatch(target) for declared in self.targets)


def _pattern(declared: str) -> re.Pattern[str]:
    return re.compile(r"\w+".join(re.escape(part) for part in _SEVERAL.split(declared)))


class Row(NamedTuple):
    """A line of ``--patches``: the changed name, the file and the reason."""

    target: str
    file: str
    why: str


_registry: dict[str, list[Patch]] = {}


def patch(*targets: str, traits: Trait, without: Trait = NONE) -> Callable[[Apply], Apply]:
    """Register a patch of these targets for drivers that have all of ``traits`` and none of ``without``."""

    def register(function: Apply) -> Apply:
        module = function.__module__
        name = f"{module.partition('.patches.')[2] or module}.{function.__name__}"
        why = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
        _registry.setdefault(module, []).append(Patch(name, module, targets, function, why, traits, without))
        return function

    return register


def of_module(module: str) -> tuple[Patch, ...]:
    """Return the patches that a module registered, in their order in the file."""
    return tuple(_registry.get(module, ()))


class Applied:
    """The patches in force."""

    def __init__(self, editor: Editor, patches: Iterable[Patch]) -> None:
        self._editor = editor
        self.patches = tuple(patches)

    def rows(self) -> list[Row]:
        """List the changes of torch, with file and reason."""
        by = {patch.name: patch for patch in self.patches}
        rows = (
            Row(change.target, by[change.by].file, by[change.by].why)
            for change in self._editor.changes
            if change.by in by
        )
        return list(dict.fromkeys(rows))

    def undo(self) -> None:
        """Undo all of them."""
        self._editor.undo()


def apply(context: Context, patches: Iterable[Patch]) -> Applied:
    """Apply the patches that match the context's traits; all of them or none."""
    editor, done = context.editor, []
    try:
        for entry in patches:
            if entry.wanted(context.traits):
                editor.by = entry.name
                entry.apply(context)
                done.append(entry)
    except BaseException:
        editor.undo()
        raise
    return Applied(editor, done)
