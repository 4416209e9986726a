"""What went where: device requests of a program by call site, and what left the accelerator; as tables at exit."""

from __future__ import annotations

import atexit
import collections
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from . import tables
from .departures import departures
from .tables import Table

#: (asked, given, call site) -> how often
Row = tuple[str, str, str]


class Counters:
    """Counts device requests on a driver, whose accelerator goes by the given name; thread-safe."""

    def __init__(self, driver: str, accelerator: str) -> None:
        self._driver, self._accelerator = driver, accelerator
        self._lock = threading.Lock()
        self._counts: collections.Counter[Row] = collections.Counter()

    def count(self, asked: str, given: str, site: str) -> None:
        """One request."""
        with self._lock:
            self._counts[asked, given, site] += 1

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


def write_at_exit(report: Callable[[], Sequence[Table]], destination: str) -> Callable[[], None]:
    """Have the report written when this process ends: to standard error for ``-``, else to a file.

    What is returned writes it now instead, for a deactivation before the end.

    A file whose name ends in ``.html`` gets a page. Other processes of the same program write beside it, with their
    process id in the name.
    """
    owner = os.getpid()

    def write() -> None:
        if destination == "-":
            sys.stderr.write(tables.text(report()))
            return
        path = Path(destination)
        if os.getpid() != owner or os.environ.get(_WRITER, str(owner)) != str(owner):
            path = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")
        render = tables.page if path.suffix == ".html" else tables.text
        path.write_text(render(report()), encoding="utf-8")

    # Children inherit the setting; the first process keeps the plain name.
    os.environ.setdefault(_WRITER, str(owner))
    atexit.register(write)

    def write_now() -> None:
        atexit.unregister(write)
        write()

    return write_now


_WRITER = "_TORCHDEVICE_REPORT_WRITER"
