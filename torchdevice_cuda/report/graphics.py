"""The data of a page's graphics: the timeline of streams, the memory of devices, the shares of operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from . import source, tables
from .document import (
    COPY,
    GRAPH,
    KERNEL,
    STREAM_WAIT,
    WAIT,
    Document,
    Finding,
    Holder,
    Memory,
    Point,
    Process,
    Shortage,
    Site,
    Span,
)
from .tables import cell, shown, size

#: Number of operators with their own part in the bar, and of lines with their own part of a device's memory.
_PARTS = 8
_HOLDERS = 7
#: Kinds of spans by the numbers that the page's script knows.
_KINDS = (KERNEL, COPY, WAIT, STREAM_WAIT, GRAPH)
#: The stream of a device's collectives.
_COLLECTIVES = -2


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a bar; ``share`` is in percent, ``colour`` a color number of the page."""

    name: str
    amount: str
    share: float
    colour: int
    link: str = ""
    text: str = ""


@dataclasses.dataclass(frozen=True)
class Chart:
    """The memory of a device over time, and the lines that held it at its peak."""

    name: str
    peak: str
    holders: tuple[Part, ...]
    #: for the script: the curve in seconds and bytes, on the clock of the first process
    data: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Story:
    """An allocation that failed: the device's memory as a bar, and the request beside it."""

    gpu: str
    site: str
    link: str
    text: str
    requested: str
    sentences: tuple[str, ...]
    parts: tuple[Part, ...]
    #: the request on the bar's scale, in percent: where it would begin, and its size
    begins: float
    request: float


class _Numbers:
    """Numbers of texts or sites, in the order in which they are first met."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def __getitem__(self, key: Any) -> int:
        return self.known.setdefault(key, len(self.known))


def _offsets(processes: Iterable[Process]) -> dict[int, float]:
    """Return by process when it started, in seconds after the first."""
    started = {process.pid: process.started for process in processes if process.started}
    first = min(started.values(), default=0.0)
    return {pid: when - first for pid, when in started.items()}


def name_device(process: int, device: int, several: bool) -> str:
    """Return the name of a device, with its process if there are several."""
    return f"cuda:{device}" + (f" of process {process}" if several else "")


def timeline(document: Document) -> dict[str, Any]:
    """Return the lanes of the timeline, with their spans as rows of numbers, and the memory below them."""
    offsets = _offsets(document.processes)
    several = len(document.timelines) > 1
    names, sites = _Numbers(), _Numbers()
    lanes: list[dict[str, Any]] = []

    def add(group: str, label: str, spans: list[Span], offset: float) -> None:
        rows = [
            [
                round(span.start + offset, 1),
                *(span.time, span.busy),
                _KINDS.index(span.kind),
                *(names[span.name], sites[span.site]),
                *(span.calls, span.bytes, int(span.in_graph)),
            ]
            for span in sorted(spans, key=lambda span: (span.start, -span.time))
        ]
        lanes.append({"group": group, "label": label, "spans": rows})

    numbers: dict[tuple[int, int | None, int], int] = {}  # of lanes, by process, device and stream
    races = [finding for finding in document.findings if finding.points]
    for each in sorted(document.timelines, key=lambda each: offsets.get(each.process, 0.0)):
        offset = offsets.get(each.process, 0.0) * 1e6
        waits = [span for span in each.spans if span.kind == WAIT]
        points = {(point.device, point.stream) for one in races if one.process == each.process for point in one.points}
        if waits or any(device is None for device, _ in points):
            numbers[each.process, None, 0] = len(lanes)
            add(f"process {each.process}" if several else "host", "waits for the GPU", waits, offset)
        by_stream: dict[tuple[int, int], list[Span]] = {
            (device, stream): [] for device, stream in points if device is not None
        }
        for span in each.spans:
            if span.kind != WAIT:
                by_stream.setdefault((span.device, span.stream), []).append(span)
        for (device, stream), spans in sorted(by_stream.items()):
            numbers[each.process, device, stream] = len(lanes)
            add(name_device(each.process, device, several), _name_stream(stream), spans, offset)
    return {
        "lanes": lanes,
        "names": [cell(name) for name in names.known],
        "sites": [[cell(shown(site)), cell(source.text_of(site)), source.link(site)] for site in sites.known],
        "memory": [chart.data for chart in charts(document)],
        "races": [
            {"text": cell(one.text), "ends": [end for end in ends if end is not None]}
            for one in races
            for ends in [[_find_end(one, point, numbers, offsets) for point in reversed(one.points)]]
            if None not in ends
        ],
        "end": round(document.seconds * 1e6, 1),
    }


def _find_end(
    finding: Finding, point: Point, lanes: dict[tuple[int, int | None, int], int], offsets: dict[int, float]
) -> tuple[int, float] | None:
    """Return an end of a race's arrow: the number of the lane, and the time in microseconds."""
    lane = lanes.get((finding.process, point.device, point.stream))
    return None if lane is None else (lane, round((point.at + offsets.get(finding.process, 0.0)) * 1e6, 1))


def _name_stream(stream: int) -> str:
    return {0: "default stream", _COLLECTIVES: "collectives"}.get(stream, f"stream {stream}")


def charts(document: Document) -> list[Chart]:
    """Return the memory of every device of every process."""
    offsets = _offsets(document.processes)
    several = len({one.process for one in document.memory}) > 1
    return [
        _chart(one, name_device(one.process, one.device, several), offsets.get(one.process, 0.0))
        for one in document.memory
        if one.curve
    ]


def _chart(one: Memory, name: str, offset: float) -> Chart:
    share = f", {tables.share(one.peak, one.total)} of {size(one.total)}" if one.total else ""
    data = {
        "name": name,
        "peak": one.peak,
        "at": round(one.peak_at + offset, 4),
        "total": one.total,
        "curve": [[round(when + offset, 4), most, last] for when, most, last in one.curve],
    }
    peak = f"{size(one.peak)} at most, after {one.peak_at + offset:.2f} s{share}"
    return Chart(name, peak, tuple(_parts(one.held_at_peak, one.peak)), data)


def _parts(holders: tuple[Holder, ...], whole: int) -> Iterable[Part]:
    def part(name: str, held: int, colour: int, site: Site | None = None) -> Part:
        share = round(100 * held / max(whole, 1), 3)
        linked = (source.link(site), cell(source.text_of(site))) if site else ("", "")
        return Part(cell(name), size(held), share, colour, *linked)

    for number, holder in enumerate(holders[:_HOLDERS]):
        yield part(shown(holder.site), holder.bytes, number, holder.site)
    rest = holders[_HOLDERS:]
    if rest:
        yield part(f"{len(rest)} other lines", sum(holder.bytes for holder in rest), 8)


def stories(document: Document) -> list[Story]:
    """Return what happened at each allocation that failed; the first of equal ones."""
    found: dict[tuple[int, Site], Shortage] = {}
    for one in document.shortages:
        found.setdefault((one.device, one.site), one)
    return [_story(one) for one in found.values()]


def _story(one: Shortage) -> Story:
    whole = max(one.allowed, one.reserved)
    unused = max(0, one.reserved - one.allocated)
    free = max(0, whole - one.reserved)
    fits = one.fits()
    sentences = [
        f"{cell(shown(one.site))} asked for {size(one.requested)} after {one.at:.2f} s.",
        f"The process may use {size(one.allowed)}; {size(one.allocated)} of them were allocated and {size(free)} free.",
    ]
    if unused:
        graphs = f" ({size(one.in_private_pools)} in the pools of graphs)" if one.in_private_pools else ""
        sentences.append(
            f"PyTorch's allocator had another {size(unused)} in pieces of at most {size(one.largest_block)}{graphs}."
        )
    sentences.append(f"A request for {size(fits)} would have fitted." if fits else "No request would have fitted.")
    lacking = max(0, one.requested - fits)
    if unused >= lacking > 0 and unused > free:
        sentences.append(
            "The memory is fragmented: try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which joins free pieces."
        )
    else:
        sentences.append(
            f"It lacks {size(lacking)}: free tensors of the lines below, use a smaller batch or "
            "torch.utils.checkpoint, or rehearse a larger GPU with --memory."
        )
    parts = [*_parts(one.holders, whole)]
    if unused:
        parts.append(Part("reserved, not allocated", size(unused), round(100 * unused / whole, 3), 10))
    parts.append(Part("free", size(free), round(100 * free / whole, 3), 9))
    begins = 100 * (whole - free) / whole
    return Story(
        f"cuda:{one.device}",
        cell(shown(one.site)),
        source.link(one.site),
        cell(source.text_of(one.site)),
        size(one.requested),
        tuple(sentences),
        tuple(parts),
        round(begins, 3),
        round(100 * one.requested / whole, 3),
    )


def bar(document: Document) -> list[Part]:
    """Return the shares of time: on the GPU by operator, and elsewhere."""
    if not document.sees_device:
        return []
    found = [
        (str(name), each.seconds) for name, each in tables.sums(tables.computed(document), lambda r: r.name).items()
    ]
    parts = found[:_PARTS]
    if found[_PARTS:]:
        parts.append((f"{len(found) - _PARTS} other operators", sum(seconds for _, seconds in found[_PARTS:])))
    operators = len(parts)
    if not document.predicted:  # this machine's time is another
        rest = sum(process.seconds for process in document.processes) - sum(seconds for _, seconds in found)
        parts.append(("Python, the host, waiting", max(0.0, rest)))
    whole = sum(seconds for _, seconds in parts) or 1e-9
    return [
        Part(
            cell(name), tables.duration(seconds), round(100 * seconds / whole, 3), 9 if number == operators else number
        )
        for number, (name, seconds) in enumerate(parts)
    ]
