"""The time in which this process compiled the device, or waited for a process that did: reports leave it out."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator

from .document import Document

#: Shorter builds are not mentioned, in seconds: another process had finished.
_SHORT = 0.5


class BuildTime:
    """Periods of builds, on the clock of :func:`time.monotonic`."""

    def __init__(self) -> None:
        self._periods: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Count the block as a build."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(began, time.monotonic())

    def add(self, began: float, ended: float) -> None:
        """Add a period; threads may build at the same time."""
        apart = []
        for first, last in self._periods:
            if last < began or ended < first:
                apart.append((first, last))
            else:
                began, ended = min(began, first), max(ended, last)
        self._periods = sorted([*apart, (began, ended)])

    def between(self, began: float, ended: float) -> float:
        """Return the seconds of builds in a period."""
        return sum(max(0.0, min(last, ended) - max(first, began)) for first, last in self._periods)

    def note(self, since: float) -> str:
        """Return a note for a report that began then; empty if nothing was compiled."""
        spent = self.between(since, time.monotonic())
        if spent < _SHORT:
            return ""
        return f"Compiling the virtual GPU took another {spent:.0f} s, once; all times leave them out."

    def shift(self, part: Document, since: float) -> Document:
        """Return a child's report, begun earlier by this process's builds from ``since`` (in seconds since 1970) on."""
        if not self._periods:
            return part
        epoch = time.time() - time.monotonic()
        processes = (
            dataclasses.replace(one, started=one.started - self.between(since - epoch, one.started - epoch))
            for one in part.processes
        )
        return dataclasses.replace(part, processes=tuple(processes))


build_time = BuildTime()
