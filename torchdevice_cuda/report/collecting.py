"""Collect a report from its counters: requests, fallbacks, refused calls, and the compiled device."""

from __future__ import annotations

import dataclasses
import datetime
import os
import shlex
import sys
import time
from collections.abc import Callable
from typing import Any

from .builds import build_time
from .counters import Counters
from .departures import departures
from .device import Device
from .document import (
    BACKWARD,
    UNKNOWN,
    Departure,
    Document,
    Finding,
    Holder,
    Memory,
    Point,
    Process,
    Request,
    Shortage,
    Site,
    Span,
    Timeline,
    Unsupported,
    Work,
    merged,
)
from .unsupported import unsupported

#: The device's numbers of sites that are not lines.
_NO_LINES = {0: Site("", 0, UNKNOWN), 1: Site("", 0, BACKWARD)}


@dataclasses.dataclass(frozen=True)
class About:
    """The circumstances of a report."""

    driver: str
    gpu: Callable[[], str]
    #: the bytes of a device
    total: Callable[[int], int]
    torch: str
    #: why the device's own work is missing; empty if it is included
    unseen: str
    #: what the checks of streams and kernels have found: fields of findings
    findings: Callable[[], list[dict[str, Any]]] = list
    #: what is not measured; empty if everything is
    predicted: str = ""


class Collector:
    """The counts of one activation; ``counters`` has the requests, if they are counted."""

    def __init__(self, about: About, counters: Counters | None, device: Device | None, hidden: list[str]) -> None:
        self._about, self._counters, self._device = about, counters, device
        self._earlier: list[Document] = []
        self._begin()
        if device is not None:
            device.start_counting(hidden)

    def _begin(self) -> None:
        self._begun = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._started = self._taken = time.monotonic()
        self._epoch = time.time()

    def _clock(self, when: float) -> float:
        """Return the seconds from the start to a time of :func:`time.monotonic`, without those of builds."""
        return when - self._started - build_time.between(self._started, when)

    def document(self) -> Document:
        """Return the report so far."""
        return merged(self._now(clear=False), self._earlier)

    def take(self) -> Document:
        """Return the counts since the last call; the whole report includes them, too."""
        now = self._now(clear=True)
        self._earlier = [merged(now, self._earlier)]
        for each in (self._counters, departures, unsupported):
            if each is not None:
                each.clear()
        last, self._taken = self._taken, time.monotonic()
        return _since(now, self._clock(last), last - self._started)

    def stop(self) -> None:
        """Stop counting."""
        if self._device is not None:
            self._device.stop_counting()

    def forget(self, first: Callable[[], None]) -> None:
        """Reset in a forked child: the parent reports its own counts. ``first`` is called when the child counts."""
        self._begin()
        self._earlier = []
        for each in (self._counters, departures, unsupported):
            if each is not None:
                each.forget()
        if self._counters is not None:
            self._counters.first = first
        if self._device is not None:
            self._device.read_counts(clear=True)

    def process(self, state: str = "ended") -> Process:
        """Return this process."""
        rank = os.environ.get("RANK", "")
        running = sys.modules.get("multiprocessing.process")
        name = "" if running is None else str(running.current_process().name)
        return Process(
            os.getpid(),
            shlex.join(sys.argv) or "python",
            "" if name == "MainProcess" else name,
            int(rank) if rank.isdigit() else None,
            round(self._clock(time.monotonic()), 6),
            state,
            round(self._epoch, 6),
        )

    def _now(self, clear: bool) -> Document:
        about, process = self._about, self.process()
        counted = self._device_counts(clear)
        notes = tuple(note for note in (about.unseen, about.predicted, build_time.note(self._started)) if note)
        if self._counters is None:
            notes += ("Device requests are not counted: torchdevice_cuda was active before a report was asked for.",)
        return Document(
            driver=about.driver,
            gpu=about.gpu(),
            torch=about.torch,
            begun=self._begun,
            seconds=process.seconds,
            processes=(process,),
            sees_device=not about.unseen,
            predicted=bool(about.predicted),
            notes=notes,
            requests=tuple(
                Request(asked, given, site, count)
                for count, asked, given, site in (self._counters.rows() if self._counters else ())
            ),
            departures=tuple(
                Departure(*row, count, departures.seconds(row), departures.site(row))
                for count, *key in departures.rows()
                for row in [(key[0], key[1], key[2])]
            ),
            unsupported=tuple(Unsupported(what, why, site, count) for count, what, why, site in unsupported.rows()),
            **counted,
        )

    def _device_counts(self, clear: bool) -> dict[str, Any]:
        """Return the fields of a document that the compiled device counts."""
        if self._device is None:
            return {"findings": tuple(_read_finding(row) for row in self._about.findings())}
        counted = self._device.read_counts(clear)
        sites = dict(enumerate(Site(*row) for row in counted["sites"])) | _NO_LINES
        # The device's clock is not Python's: read both now.
        offset = time.monotonic() - counted["now_ns"] / 1e9

        def when(ns: int) -> float:
            return round(self._clock(ns / 1e9 + offset), 4)

        def holders(held: list[tuple[int, int]]) -> tuple[Holder, ...]:
            return tuple(Holder(sites[site], size) for site, size in sorted(held, key=lambda h: -h[1]))

        pid = os.getpid()
        work = tuple(
            Work(kind, name, sites[site], calls, ns / 1e9, size)
            for kind, name, site, calls, ns, size in counted["rows"]
        )
        memory = tuple(
            Memory(
                pid,
                one["device"],
                one["peak"],
                when(one["peak_ns"]),
                holders(one["held_at_peak"]),
                tuple((when(since), most, last) for since, most, last in one["steps"]),
                self._about.total(one["device"]),
            )
            for one in counted["memory"]
        )
        rows = (
            [*row[:4], sites[row[4]], self._clock(row[5] / 1e9 + offset), row[6] / 1e9, row[7] / 1e9, *row[8:]]
            for row in counted["spans"]
        )
        spans = tuple(Span(*row[:5], *(round(1e6 * seconds, 1) for seconds in row[5:8]), *row[8:]) for row in rows)
        shortages = tuple(
            Shortage(
                process=pid,
                at=when(one.pop("at_ns")),
                site=sites[one.pop("site")],
                holders=holders(one.pop("holders")),
                **one,
            )
            for one in counted["shortages"]
        )
        timelines = (Timeline(pid, spans),) if spans else ()
        findings = tuple(_read_finding(row, when) for row in self._about.findings())
        return {"work": work, "memory": memory, "timelines": timelines, "shortages": shortages, "findings": findings}


def _read_finding(row: dict[str, Any], when: Callable[[int], float] | None = None) -> Finding:
    site, other = (None if line is None else Site(*line) for line in (row["site"], row["other"]))
    points: tuple[Point, ...] = ()
    if when is not None:
        ends = (((lane or (None, 0)), at_ns) for lane, at_ns in row.get("points", ()))
        points = tuple(Point(device, stream, when(at_ns)) for (device, stream), at_ns in ends)
    about = {"process": os.getpid(), "site": site or Site("", 0, UNKNOWN), "other": other, "points": points}
    return Finding(**{**row, **about})


def _since(document: Document, seconds: float, elapsed: float) -> Document:
    """Return the report of a period that began this much later, on its own clock; ``elapsed`` includes builds."""
    memory = tuple(
        dataclasses.replace(
            one,
            peak_at=max(0.0, one.peak_at - seconds),
            curve=tuple((max(0.0, when - seconds), most, last) for when, most, last in one.curve),
        )
        for one in document.memory
    )
    timelines = tuple(
        dataclasses.replace(
            each,
            spans=tuple(dataclasses.replace(span, start=max(0.0, span.start - seconds * 1e6)) for span in each.spans),
        )
        for each in document.timelines
    )
    findings = tuple(
        dataclasses.replace(
            one, points=tuple(dataclasses.replace(point, at=max(0.0, point.at - seconds)) for point in one.points)
        )
        for one in document.findings
    )
    begun = datetime.datetime.fromisoformat(document.begun) + datetime.timedelta(seconds=elapsed)
    return dataclasses.replace(
        document,
        begun=begun.isoformat(timespec="seconds"),
        seconds=document.seconds - seconds,
        processes=tuple(
            dataclasses.replace(each, seconds=each.seconds - seconds, started=each.started + elapsed)
            for each in document.processes
        ),
        memory=memory,
        timelines=timelines,
        findings=findings,
        shortages=tuple(dataclasses.replace(one, at=max(0.0, one.at - seconds)) for one in document.shortages),
    )
