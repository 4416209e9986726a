"""The data of a report: the schema of ``--report out.json``, and the merging of several processes' reports.

Every renderer (text, page, notebook) shows a :class:`Document` and nothing else.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

#: Named in every JSON report. It is incremented if a reader of the last version would be misled.
SCHEMA = "torchdevice_cuda/report/1"

KERNEL, COPY, WAIT = "kernel", "copy", "wait"
#: Only part of a timeline: a stream that waits for an event, and the launch of a graph.
STREAM_WAIT, GRAPH = "stream wait", "graph"
#: Innermost lists of numbers and words, which the data has on one line each.
_ROWS = re.compile(r'\[(?:\s*(?:-?\d[-+.e\d]*|true|false|"[a-z ]+"),?)+\s*\]')
#: The most spans of a process that a report keeps, as the compiled device does.
MOST_SPANS = 1 << 14
#: Names of sites that are not lines.
BACKWARD = "(backward pass)"
UNKNOWN = "(no line of the program)"


@dataclasses.dataclass(frozen=True, order=True)
class Site:
    """A line of the program; a file of ``""`` is no line, and the function's name explains it."""

    file: str
    line: int
    function: str = dataclasses.field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.file else self.function or UNKNOWN


@dataclasses.dataclass(frozen=True)
class Work:
    """The device's work for a line: a kernel, a copy, or a call in which the host waits for the device."""

    kind: str
    name: str
    site: Site
    calls: int
    seconds: float
    bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Request:
    """A requested device, and the resulting one; ``site`` is file and line."""

    asked: str
    given: str
    site: str
    count: int


@dataclasses.dataclass(frozen=True)
class Departure:
    """An operator that left the GPU, or a dtype that was replaced there; ``site`` is the first call site."""

    what: str
    where: str
    why: str
    count: int
    seconds: float = 0.0
    site: str = ""


@dataclasses.dataclass(frozen=True)
class Unsupported:
    """A call that was refused because torchdevice_cuda does not support it."""

    what: str
    why: str
    site: str
    count: int


@dataclasses.dataclass(frozen=True)
class Holder:
    """A line, and the bytes allocated there at the peak."""

    site: Site
    bytes: int


@dataclasses.dataclass(frozen=True)
class Memory:
    """The memory of a device in a process.

    ``curve`` has steps ``(seconds since the start, most bytes in the step, bytes at its end)``.
    """

    process: int
    device: int
    peak: int
    peak_at: float
    held_at_peak: tuple[Holder, ...]
    curve: tuple[tuple[float, int, int], ...] = ()
    #: bytes that the device has; 0 if unknown
    total: int = 0


@dataclasses.dataclass(frozen=True)
class Span:
    """Work of one kind on a stream over time: one piece, or several that follow each other if there are too many.

    Times are in microseconds, ``start`` since the start of the process. The name and the site are those of the longest
    piece, ``busy`` is the sum of their times. Waits of the host have the stream that it waits for.
    """

    kind: str
    device: int
    stream: int
    name: str
    site: Site
    start: float
    time: float
    busy: float
    calls: int
    bytes: int
    in_graph: bool


@dataclasses.dataclass(frozen=True)
class Timeline:
    """The spans of a process."""

    process: int
    spans: tuple[Span, ...]

    def to_data(self) -> dict[str, Any]:
        """Return a compact form: names and sites by their numbers, and a span as a list in the order of its fields."""
        names: dict[str, int] = {}
        sites: dict[Site, int] = {}
        spans = [
            [
                one.kind,
                one.device,
                one.stream,
                names.setdefault(one.name, len(names)),
                sites.setdefault(one.site, len(sites)),
                *(one.start, one.time, one.busy, one.calls, one.bytes, one.in_graph),
            ]
            for one in self.spans
        ]
        return {
            "process": self.process,
            "names": [*names],
            "sites": [dataclasses.asdict(site) for site in sites],
            "spans": spans,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Timeline:
        """Read what :meth:`to_data` returned."""
        sites = [Site(**site) for site in data["sites"]]
        rows = ([*row[:3], data["names"][row[3]], sites[row[4]], *row[5:]] for row in data["spans"])
        return cls(data["process"], tuple(Span(*row) for row in rows))


@dataclasses.dataclass(frozen=True)
class Shortage:
    """An allocation that failed because a device's memory was short. Sizes are in bytes, ``at`` in seconds."""

    process: int
    device: int
    at: float
    site: Site
    requested: int
    allocated: int
    #: in segments of PyTorch's allocator, allocated or not
    reserved: int
    #: of ``reserved``, in the pools of graphs
    in_private_pools: int
    #: outside of PyTorch's segments
    free: int
    #: the largest free block inside of them
    largest_block: int
    #: the limit of this process
    allowed: int
    total: int
    holders: tuple[Holder, ...]

    def fits(self) -> int:
        """Return the largest request that would have succeeded."""
        return max(self.largest_block, min(self.free, max(0, self.allowed - self.reserved)))


@dataclasses.dataclass(frozen=True)
class Point:
    """When a stream of a device issued work, in seconds. The host has no device."""

    device: int | None
    stream: int
    at: float


@dataclasses.dataclass(frozen=True)
class Finding:
    """An error that ``--check-streams`` or a tool of ``--sanitize`` found; ``level``: error or warning.

    A race has two sides: ``site`` is the later access, ``other`` the earlier; ``lanes`` are the names of their streams,
    ``points`` where they are in the timeline, if there is one.
    """

    process: int
    tool: str
    level: str
    text: str
    site: Site
    other: Site | None = None
    lanes: tuple[str, ...] = ()
    points: tuple[Point, ...] = ()
    #: of --sanitize
    kernel: str = ""


@dataclasses.dataclass(frozen=True)
class Process:
    """A process of the report. ``state``: ended, running, or lost if it ended without its part."""

    pid: int
    command: str
    name: str = ""
    rank: int | None = None
    seconds: float = 0.0
    state: str = "ended"
    #: when it started to count, in seconds since 1970; 0 if unknown
    started: float = 0.0


@dataclasses.dataclass(frozen=True)
class Document:
    """A whole report."""

    driver: str
    gpu: str
    torch: str
    begun: str
    seconds: float
    processes: tuple[Process, ...]
    #: whether this driver shows kernels, copies, waits and memory; ``notes`` have the reason if not
    sees_device: bool
    notes: tuple[str, ...] = ()
    work: tuple[Work, ...] = ()
    requests: tuple[Request, ...] = ()
    departures: tuple[Departure, ...] = ()
    unsupported: tuple[Unsupported, ...] = ()
    memory: tuple[Memory, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    shortages: tuple[Shortage, ...] = ()
    findings: tuple[Finding, ...] = ()
    #: whether the GPU's times are predictions, of ``--clock gpu``
    predicted: bool = False

    def is_empty(self) -> bool:
        """Return whether nothing was counted."""
        return not (self.work or self.requests or self.departures or self.unsupported)

    def to_json(self) -> str:
        """Return the data of ``out.json``."""
        # Without the timelines: as dictionaries they would be twenty times as large.
        data = dataclasses.asdict(dataclasses.replace(self, timelines=()))
        data["timelines"] = [each.to_data() for each in self.timelines]
        text = json.dumps({"schema": SCHEMA, **data}, indent=1)
        return _ROWS.sub(lambda row: re.sub(r"\n\s*", "", row[0]), text) + "\n"


def from_json(text: str) -> Document:
    """Read the data that :meth:`Document.to_json` wrote; ValueError for anything else."""
    try:
        read = json.loads(text)
        if read.pop("schema") != SCHEMA:
            raise ValueError("it is no report of this version")
        return Document(
            **{
                **read,
                "processes": tuple(Process(**row) for row in read["processes"]),
                "notes": tuple(read["notes"]),
                "work": tuple(Work(**{**row, "site": Site(**row["site"])}) for row in read["work"]),
                "requests": tuple(Request(**row) for row in read["requests"]),
                "departures": tuple(Departure(**row) for row in read["departures"]),
                "unsupported": tuple(Unsupported(**row) for row in read["unsupported"]),
                "memory": tuple(map(_memory, read["memory"])),
                "timelines": tuple(map(Timeline.from_data, read["timelines"])),
                "shortages": tuple(map(_shortage, read["shortages"])),
                "findings": tuple(map(_finding, read["findings"])),
            }
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is no report: {error!r}") from None


def _memory(row: dict[str, Any]) -> Memory:
    held = _holders(row["held_at_peak"])
    return Memory(**{**row, "held_at_peak": held, "curve": tuple(tuple(step) for step in row["curve"])})


def _finding(row: dict[str, Any]) -> Finding:
    other = None if row["other"] is None else Site(**row["other"])
    points = tuple(Point(**one) for one in row["points"])
    site, lanes = Site(**row["site"]), tuple(row["lanes"])
    return Finding(**{**row, "site": site, "other": other, "lanes": lanes, "points": points})


def _shortage(row: dict[str, Any]) -> Shortage:
    return Shortage(**{**row, "site": Site(**row["site"]), "holders": _holders(row["holders"])})


def _holders(rows: list[dict[str, Any]]) -> tuple[Holder, ...]:
    return tuple(Holder(Site(**one["site"]), one["bytes"]) for one in rows)


Row = TypeVar("Row", Work, Request, Departure, Unsupported)


def _added(rows: Iterable[Row], key: Callable[[Row], Any], *sums: str) -> tuple[Row, ...]:
    """Merge rows with equal keys: the named fields are added, the others are the first row's."""
    found: dict[Any, Row] = {}
    for row in rows:
        first = found.get(key(row))
        if first is None:
            found[key(row)] = row
        else:
            found[key(row)] = dataclasses.replace(
                first, **{name: getattr(first, name) + getattr(row, name) for name in sums}
            )
    return tuple(found.values())


def merged(first: Document, others: Sequence[Document]) -> Document:
    """Merge reports; data of single processes (memory) stays separate, and the first one's times are kept."""
    every = (first, *others)
    processes: dict[int, Process] = {}
    for one in every:
        for process in one.processes:
            processes.setdefault(process.pid, process)
    return dataclasses.replace(
        first,
        processes=tuple(processes.values()),
        sees_device=any(one.sees_device for one in every),
        notes=tuple(dict.fromkeys(note for one in every for note in one.notes)),
        work=_added(
            (row for one in every for row in one.work),
            lambda row: (row.kind, row.name, row.site),
            "calls",
            "seconds",
            "bytes",
        ),
        requests=_added(
            (row for one in every for row in one.requests), lambda row: (row.asked, row.given, row.site), "count"
        ),
        departures=_added(
            (row for one in every for row in one.departures),
            lambda row: (row.what, row.where, row.why),
            "count",
            "seconds",
        ),
        unsupported=_added(
            (row for one in every for row in one.unsupported), lambda row: (row.what, row.why, row.site), "count"
        ),
        memory=_highest([row for one in every for row in one.memory]),
        timelines=_joined([row for one in every for row in one.timelines]),
        shortages=tuple(row for one in every for row in one.shortages),
        findings=tuple(dict.fromkeys(row for one in every for row in one.findings)),
    )


def _joined(rows: Sequence[Timeline]) -> tuple[Timeline, ...]:
    """Return one timeline for each process."""
    found: dict[int, list[Span]] = {}
    for row in rows:
        found.setdefault(row.process, []).extend(row.spans)
    return tuple(Timeline(process, tuple(spans[-MOST_SPANS:])) for process, spans in found.items())


def _highest(rows: Sequence[Memory]) -> tuple[Memory, ...]:
    """Return one row for each device of a process: the period with the peak, and the whole curve."""
    found: dict[tuple[int, int], Memory] = {}
    for row in rows:
        key = (row.process, row.device)
        last = found.get(key)
        if last is None:
            found[key] = row
            continue
        higher = row if row.peak > last.peak else last
        found[key] = dataclasses.replace(higher, curve=(*last.curve, *row.curve))
    return tuple(found.values())
