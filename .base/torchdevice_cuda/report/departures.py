"""What left the accelerator, or lost precision on it: counted with the reason, so that a report can say so."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

#: (what, where it went, why)
Row = tuple[str, str, str]


class Departures:
    """Counts of ``(what, where it went, why)``; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Taking the next number of an itertools.count is one step for the interpreter: it needs no lock.
        self._counts: dict[Row, itertools.count[int]] = {}
        self._forgotten: dict[Row, int] = {}

    def counter(self, what: str, where: str, why: str) -> Callable[[], int]:
        """A function that counts one departure and says how many of its kind there were before."""
        row = (what, where, why)
        with self._lock:
            return self._counts.setdefault(row, itertools.count()).__next__

    def rows(self) -> list[tuple[int, str, str, str]]:
        """``(count, what, where, why)``, most first."""
        with self._lock:
            counts = [(_value(count) - self._forgotten.get(row, 0), row) for row, count in self._counts.items()]
        return sorted(((number, *row) for number, row in counts if number), key=lambda row: (-row[0], row[1:]))

    def clear(self) -> None:
        """Forget everything; counters that were handed out go on counting."""
        with self._lock:
            self._forgotten = {row: _value(count) for row, count in self._counts.items()}


def _value(count: itertools.count[int]) -> int:
    """The number that a count would give next, without taking it."""
    return int(repr(count)[len("count(") : -1])


#: The departures of this process.
departures = Departures()
