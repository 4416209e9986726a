"""The data of a report: the schema of ``--report out.json``, and the merging of several processes' reports.

Every renderer (text, page, notebook) shows a :class:`Document` and nothing else.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

#: Named in every JSON report. It is incremented if a reader of the last version would be misled.
SCHEMA = "torchdevice_cuda/report/1"

KERNEL, COPY, WAIT = "kernel", "copy", "wait"
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


@dataclasses.dataclass(frozen=True)
class Process:
    """A process of the report. ``state``: ended, running, or lost if it ended without its part."""

    pid: int
    command: str
    name: str = ""
    rank: int | None = None
    seconds: float = 0.0
    state: str = "ended"


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

    def is_empty(self) -> bool:
        """Return whether nothing was counted."""
        return not (self.work or self.requests or self.departures or self.unsupported)

    def to_json(self) -> str:
        """Return the data of ``out.json``."""
        return json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, indent=1) + "\n"


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
            }
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"it is no report: {error!r}") from None


def _memory(row: dict[str, Any]) -> Memory:
    held = tuple(Holder(Site(**one["site"]), one["bytes"]) for one in row["held_at_peak"])
    return Memory(**{**row, "held_at_peak": held, "curve": tuple(tuple(step) for step in row["curve"])})


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
    )


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
