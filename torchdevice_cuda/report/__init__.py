"""What went where: device requests of a program by call site, and what left the accelerator; as tables at exit."""

from __future__ import annotations

import collections
import threading

from .departures import departures
from .destination import check as check
from .ending import AtExit as AtExit
from .tables import Table

#: (asked, given, call site) -> how often
Row = tuple[str, str, str]
#: A program that compiles code under ever new names has ever new call sites; past so many rows they are counted as one.
MOST_ROWS = 10_000
OTHER_SITES = "(other call sites)"


class Counters:
    """Counts device requests on a driver, whose accelerator goes by the given name; thread-safe."""

    def __init__(self, driver: str, accelerator: str) -> None:
        self._driver, self._accelerator = driver, accelerator
        self._begin()

    def _begin(self) -> None:
        # Reentrant: a report may be written by a signal that comes while its thread counts.
        self._lock = threading.RLock()
        self._counts: collections.Counter[Row] = collections.Counter()

    def forget(self) -> None:
        """Begin again, in a forked child, where another thread of the parent may have had the lock."""
        self._begin()
        departures.forget()

    def count(self, asked: str, given: str, site: str) -> None:
        """One request."""
        with self._lock:
            row = (asked, given, site)
            if len(self._counts) >= MOST_ROWS and row not in self._counts:
                row = (asked, given, OTHER_SITES)
            self._counts[row] += 1

    def rows(self) -> list[tuple[int, str, str, str]]:
        """``(count, asked, given, site)``, most first."""
        with self._lock:
            counts = list(self._counts.items())
        return sorted(((number, *row) for row, number in counts), key=lambda row: (-row[0], row[1:]))

    def tables(self) -> list[Table]:
        """The report: the requests and, if there were any, the departures."""
        requests = Table(
            f"device requests on the {self._driver} driver",
            ("count", "asked", "given", "call site"),
            self.rows(),
            "device requests",
        )
        left = departures.rows()
        if not left:
            return [requests]
        title = f"what left {self._accelerator}, or lost precision there"
        return [requests, Table(title, ("count", "what", "where it went", "why"), left, "departures")]
