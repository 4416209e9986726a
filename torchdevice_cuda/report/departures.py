"""What left the accelerator, or lost precision on it: counted with the reason, so that a report can say so."""

from __future__ import annotations

import collections
import threading


class Departures:
    """Counts of ``(what, where it went, why)``; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[tuple[str, str, str]] = collections.Counter()

    def count(self, what: str, where: str, why: str) -> int:
        """One departure; how many of its kind there have been, this one included."""
        row = (what, where, why)
        with self._lock:
            self._counts[row] += 1
            return self._counts[row]

    def rows(self) -> list[tuple[int, str, str, str]]:
        """``(count, what, where, why)``, most first."""
        with self._lock:
            counts = list(self._counts.items())
        return sorted(((number, *row) for row, number in counts), key=lambda row: (-row[0], row[1:]))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._counts.clear()


#: The departures of this process.
departures = Departures()
