"""Random numbers of a capture: what a replay draws, and from which state.

A replay draws from a generator's current state. Changes of a generator's state by the program during a capture are
detected by comparing it before and after each draw: a checkpoint that restores a state draws the same numbers again,
and does so in every replay.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .nodes import Node


@dataclasses.dataclass
class _Place:
    """A position in the order of draws, and the generator's state there in the last replay."""

    generator: torch.Generator
    wanted: bool = False
    state: torch.Tensor | None = None

    def mark(self) -> None:
        if self.wanted:
            self.state = self.generator.get_state()

    def go_back(self) -> None:
        if self.state is not None:
            self.generator.set_state(self.state)


class _Followed:
    """The state of one generator in one capture."""

    def __init__(self, generator: torch.Generator, add: Callable[[Node], None]) -> None:
        self.generator, self._add = generator, add
        self.begin = generator.get_state()
        self._is_drawn_from = False
        self._last = _content(self.begin)
        self._places: dict[bytes, _Place] = {}
        self._note(self._last)

    def _note(self, content: bytes) -> None:
        if content not in self._places:
            place = self._places[content] = _Place(self.generator)
            self._add(Node("", place.mark))

    def before(self) -> None:
        """Check, before a draw, whether the generator's state was changed."""
        state = self.generator.get_state()
        content = _content(state)
        if content == self._last:
            return
        place = self._places.get(content)
        if place is None:
            self._add(Node("", lambda: self.generator.set_state(state)))
            self._note(content)
        else:
            place.wanted = True
            self._add(Node("", place.go_back))
        self._last = content

    def after(self) -> None:
        """Record the state after a draw."""
        self._is_drawn_from = True
        self._last = _content(self.generator.get_state())
        self._note(self._last)

    def skip(self) -> None:
        """Advance past the host's draws: a replay draws after them, wherever it begins."""
        self._last = _content(self.generator.get_state())
        self._note(self._last)

    def end(self) -> None:
        """Restore the state before the capture, apart from the host's draws; a replay repeats the last change."""
        if self._is_drawn_from:
            self.before()
            self.generator.set_state(self.begin)


def _name(generator: Any) -> int:
    """Return a key that two objects for one generator share."""
    name: int = generator._cdata
    return name


def _content(state: torch.Tensor) -> bytes:
    return ctypes.string_at(state.data_ptr(), state.numel())


class Draws:
    """The generators that a capture tracks."""

    def __init__(self, generators: Iterable[torch.Generator], add: Callable[[Node], None]) -> None:
        self._followed = {_name(generator): _Followed(generator, add) for generator in generators}
        self._add = add

    def knows(self, generator: torch.Generator) -> bool:
        """Return whether its draws belong to the graph."""
        return _name(generator) in self._followed

    def of(self, generator: torch.Generator) -> _Followed:
        """Return the state of a generator, which is tracked from now on."""
        found = self._followed.get(_name(generator))
        if found is None:
            found = self._followed[_name(generator)] = _Followed(generator, self._add)
        return found

    def end(self) -> None:
        """Restore the generators' states from before the capture."""
        for followed in self._followed.values():
            followed.end()
