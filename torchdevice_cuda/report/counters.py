"""Counters of a program's device requests, by call site."""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable

#: (requested, given, call site), with the count
Row = tuple[str, str, str]
#: A program that compiles code under ever new names has ever new call sites; beyond this many rows they share one.
MOST_ROWS = 10_000
OTHER_SITES = "(other call sites)"


class Counters:
    """Counts of three texts, of which the last is a call site; thread-safe."""

    def __init__(self) -> None:
        #: called at the next count, once
        self.first: Callable[[], None] | None = None
        self.forget()

    def forget(self) -> None:
        """Reset in a forked child, where another thread of the parent may have held the lock."""
        # Reentrant: a signal may write a report while its thread counts.
        self._lock = threading.RLock()
        self._counts: collections.Counter[Row] = collections.Counter()

    def clear(self) -> None:
        """Reset the counts."""
        with self._lock:
            self._counts.clear()

    def count(self, asked: str, given: str, site: str) -> None:
        """Count one more request: the requested and the resulting device."""
        with self._lock:
            row = (asked, given, site)
            if len(self._counts) >= MOST_ROWS and row not in self._counts:
                row = (asked, given, OTHER_SITES)
            self._counts[row] += 1
        if self.first is not None:
            first, self.first = self.first, None
            first()

    def rows(self) -> list[tuple[int, str, str, str]]:
        """Return ``(count, asked, given, site)``, most first."""
        with self._lock:
            counts = list(self._counts.items())
        return sorted(((number, *row) for row, number in counts), key=lambda row: (-row[0], row[1:]))
