"""Changes of torch: an undo log with the old value of each change, and the patch that made it."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, MutableSet
from typing import Any, ParamSpec

_MISSING = object()
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Change:
    """A change: its dotted name, and the patch that made it."""

    target: str
    by: str


def dotted(owner: Any, name: str) -> str:
    """Return the name under which a program finds an attribute: ``torch.Tensor.to``."""
    if isinstance(owner, types.ModuleType):
        return f"{owner.__name__}.{name}"
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}.{name}"


class Editor:
    """Set attributes and entries, and restore them all, latest first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        #: all changes so far, in order
        self.changes: list[Change] = []
        #: the patch that is making changes now
        self.by = ""

    def _changed(self, target: str, undo: Callable[[], None]) -> None:
        self.changes.append(Change(target, self.by))
        self._undo.append(undo)

    def set(self, owner: Any, name: str, value: Any, target: str | None = None) -> None:
        """Set ``owner.name = value``, reversibly. ``target`` is the name shown if the owner has none."""
        before = vars(owner).get(name, _MISSING)

        def undo() -> None:
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._changed(target or dotted(owner, name), undo)
        setattr(owner, name, value)

    def remove(self, owner: Any, name: str) -> None:
        """Delete ``owner.name``, reversibly."""
        before = vars(owner)[name]
        self._changed(dotted(owner, name), lambda: setattr(owner, name, before))
        delattr(owner, name)

    def configure(self, config: Any, name: str, value: Any) -> None:
        """Set an option of one of torch's config modules, which do not store values as attributes."""
        before = getattr(config, name)
        self._changed(dotted(config, name), lambda: setattr(config, name, before))
        setattr(config, name, value)

    def item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Set ``table[key] = value``, reversibly. Tables have no names: the name they belong to is changed, too."""
        before = table.get(key, _MISSING)

        def undo() -> None:
            if before is _MISSING:
                table.pop(key, None)
            else:
                table[key] = before

        self._undo.append(undo)
        table[key] = value

    def member(self, members: list[Any] | MutableSet[Any], value: Any) -> None:
        """Add one member to a list or a set, reversibly."""
        if isinstance(members, list):
            members.append(value)
        else:
            members.add(value)
        self._undo.append(lambda: members.remove(value))

    def undone(self, target: str, undo: Callable[[], None]) -> None:
        """Record a change that was made by other means, such as a registration, and the function that undoes it."""
        self._changed(target, undo)

    def later(self, action: Callable[P, None]) -> Callable[P, None]:
        """Wrap a function that changes torch later, so that its changes belong to the current patch."""
        by = self.by

        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            now, self.by = self.by, by
            try:
                action(*args, **kwargs)
            finally:
                self.by = now

        return run

    def on_undo(self, action: Callable[[], None]) -> None:
        """Call a function when the changes are undone."""
        self._undo.append(action)

    def undo(self) -> None:
        """Undo everything, latest first, so that a name that was changed twice gets its first value."""
        while self._undo:
            self._undo.pop()()
