"""Fallbacks, and losses of precision, counted with their reasons for the report."""

from __future__ import annotations

import operator
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

#: (operator or dtype, backend, reason)
Row = tuple[str, str, str]
#: counts one and returns the number of earlier ones; returns the number
Counter = tuple[Callable[[], int], Callable[[], int]]


def _counter() -> Counter:
    """Return a counter for any thread.

    Every fallback of an operator counts itself, so it costs 0.04 us instead of a lock's 0.5: taking the next number of
    a range is one step of the interpreter, and the rest of the range tells how many were taken.
    """
    numbers = iter(range(sys.maxsize))
    return numbers.__next__, lambda: sys.maxsize - operator.length_hint(numbers)


class FallbackCounters:
    """Counts of ``(operator or dtype, backend, reason)``; thread-safe."""

    def __init__(self) -> None:
        # Reentrant: a signal may write a report while its thread counts.
        self._lock = threading.RLock()
        self._counters: dict[Row, Counter] = {}
        self._forgotten: dict[Row, int] = {}
        self._seconds: dict[Row, float] = {}
        self._sites: dict[Row, str] = {}
        #: whether fallbacks are timed
        self.timed = False

    def time(self, on: bool) -> None:
        """Set whether to time operators that are registered from now on."""
        self.timed = on

    def spend(self, row: Row, seconds: float) -> None:
        """Add the time of a fallback."""
        with self._lock:
            self._seconds[row] = self._seconds.get(row, 0.0) + seconds

    def first_at(self, row: Row, file: str, line: int) -> None:
        """Store the call site of a fallback, if it is the first."""
        with self._lock:
            self._sites.setdefault(row, f"{file}:{line}")

    def seconds(self, row: Row) -> float:
        """Return the total time of fallbacks of a kind, if they were timed."""
        with self._lock:
            return self._seconds.get(row, 0.0)

    def site(self, row: Row) -> str:
        """Return the call site of the first of a kind; empty if it was not recorded."""
        with self._lock:
            return self._sites.get(row, "")

    def counter(self, what: str, where: str, why: str) -> Callable[[], int]:
        """Return a function that counts one fallback and returns the number of earlier ones of its kind."""
        row = (what, where, why)
        with self._lock:
            if row not in self._counters:
                self._counters[row] = _counter()
            return self._counters[row][0]

    def rows(self) -> list[tuple[int, str, str, str]]:
        """Return ``(count, what, where, why)``, most first."""
        with self._lock:
            counts = [(value() - self._forgotten.get(row, 0), row) for row, (_, value) in self._counters.items()]
        return sorted(((number, *row) for number, row in counts if number), key=lambda row: (-row[0], row[1:]))

    def clear(self) -> None:
        """Reset all counts; existing counter functions stay valid."""
        with self._lock:
            self._forgotten = {row: value() for row, (_, value) in self._counters.items()}
            self._seconds.clear()
            self._sites.clear()

    def forget(self) -> None:
        """Replace the lock in a forked child, where another thread of the parent may have held it."""
        self._lock = threading.RLock()
        self.clear()


#: The fallbacks of this process.
departures = FallbackCounters()


def timed(function: Callable[..., Any], row: Row) -> Callable[..., Any]:
    """Wrap a function to add its time to that of fallbacks of a kind, if timing is on."""
    if not departures.timed:
        return function

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            departures.spend(row, time.perf_counter() - began)

    return wrapper
