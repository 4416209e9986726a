"""The one way to change torch: an undo log that remembers what was there, and what was changed by whom."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, MutableSet
from typing import Any, ParamSpec

_MISSING = object()
P = ParamSpec("P")


@dataclasses.dataclass(frozen=True)
class Change:
    """One thing that was changed: its dotted name, and who changed it."""

    target: str
    by: str


def dotted(owner: Any, name: str) -> str:
    """Return the name under which a program finds an attribute: ``torch.Tensor.to``."""
    if isinstance(owner, types.ModuleType):
        return f"{owner.__name__}.{name}"
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}.{name}"


class Editor:
    """Sets attributes and entries, and puts everything back, latest first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        #: everything that was changed so far, in order
        self.changes: list[Change] = []
        #: who is changing things now: the name of a patch
        self.by = ""

    def _changed(self, target: str, undo: Callable[[], None]) -> None:
        self.changes.append(Change(target, self.by))
        self._undo.append(undo)

    def set(self, owner: Any, name: str, value: Any, target: str | None = None) -> None:
        """``owner.name = value``, to be undone. ``target`` names it for people where its owner has no name."""
        before = vars(owner).get(name, _MISSING)

        def undo() -> None:
            if before is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._changed(target or dotted(owner, name), undo)
        setattr(owner, name, value)

    def remove(self, owner: Any, name: str) -> None:
        """``del owner.name``, to be undone."""
        before = vars(owner)[name]
        self._changed(dotted(owner, name), lambda: setattr(owner, name, before))
        delattr(owner, name)

    def configure(self, config: Any, name: str, value: Any) -> None:
        """A setting of one of torch's config modules, which keep their values elsewhere than in themselves."""
        before = getattr(config, name)
        self._changed(dotted(config, name), lambda: setattr(config, name, before))
        setattr(config, name, value)

    def item(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """``table[key] = value``, to be undone. Tables have no names: what they are about is changed beside them."""
        before = table.get(key, _MISSING)

        def undo() -> None:
            if before is _MISSING:
                table.pop(key, None)
            else:
                table[key] = before

        self._undo.append(undo)
        table[key] = value

    def member(self, members: list[Any] | MutableSet[Any], value: Any) -> None:
        """Add one member to a list or a set, to be undone."""
        if isinstance(members, list):
            members.append(value)
        else:
            members.add(value)
        self._undo.append(lambda: members.remove(value))

    def undone(self, target: str, undo: Callable[[], None]) -> None:
        """A change that was made by other means, such as a registration, and what takes it back."""
        self._changed(target, undo)

    def later(self, action: Callable[P, None]) -> Callable[P, None]:
        """Something that changes torch later, on behalf of who is changing things now."""
        by = self.by

        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            now, self.by = self.by, by
            try:
                action(*args, **kwargs)
            finally:
                self.by = now

        return run

    def on_undo(self, action: Callable[[], None]) -> None:
        """Have something else done when the changes are taken back."""
        self._undo.append(action)

    def undo(self) -> None:
        """Put back everything, latest first: what was changed twice was first what the first change found."""
        while self._undo:
            self._undo.pop()()
