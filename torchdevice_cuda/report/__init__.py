"""What went where: device requests of a program, counted by call site, as a table at exit."""

from __future__ import annotations

import atexit
import collections
import html
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

#: (asked, given, call site) -> how often
Row = tuple[str, str, str]


class Counters:
    """Counts device requests; thread-safe."""

    def __init__(self, title: str) -> None:
        self.title = title
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

    def text(self) -> str:
        """The counts as a plain table."""
        head = ("count", "asked", "given", "call site")
        body = [tuple(map(str, row)) for row in self.rows()]
        widths = [max(len(row[column]) for row in (head, *body)) for column in range(len(head))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *body)]
        total = sum(row[0] for row in self.rows())
        return "\n".join([self.title, *(line.rstrip() for line in lines), f"{total} device requests in all", ""])

    def page(self) -> str:
        """The counts as an HTML page."""
        cells = "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in self.rows()
        )
        title = html.escape(self.title)
        return (
            f"<!doctype html><meta charset=utf-8><title>{title}</title>"
            "<style>body{font-family:sans-serif}td,th{padding:.2em .8em;text-align:left}</style>"
            f"<h1>{title}</h1><table><tr><th>count<th>asked<th>given<th>call site</tr>\n{cells}\n</table>\n"
        )


def write_at_exit(counters: Counters, destination: str) -> Callable[[], None]:
    """Have the report written when this process ends: to standard error for ``-``, else to a file.

    What is returned writes it now instead, for a deactivation before the end.

    A file whose name ends in ``.html`` gets a page. Other processes of the same program write beside it, with their
    process id in the name.
    """
    owner = os.getpid()

    def write() -> None:
        if destination == "-":
            sys.stderr.write(counters.text())
            return
        path = Path(destination)
        if os.getpid() != owner or os.environ.get(_WRITER, str(owner)) != str(owner):
            path = path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}")
        path.write_text(counters.page() if path.suffix == ".html" else counters.text(), encoding="utf-8")

    # Children inherit the setting; the first process keeps the plain name.
    os.environ.setdefault(_WRITER, str(owner))
    atexit.register(write)

    def write_now() -> None:
        atexit.unregister(write)
        write()

    return write_now


_WRITER = "_TORCHDEVICE_REPORT_WRITER"
