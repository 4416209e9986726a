"""Check that viewers can draw an exported trace: the trace event format, as Kineto uses it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Track = tuple[Any, Any]

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
#: Kineto draws a range of the device's a nanosecond earlier and later than what is in it.
WIDER_NS = 2


def read(path: str | Path) -> dict[str, Any]:
    """Return a trace, as JSON has it."""
    trace: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return trace


def of(trace: dict[str, Any], *categories: str) -> list[Event]:
    """Its slices of these categories."""
    return [e for e in trace["traceEvents"] if e["ph"] == "X" and e.get("cat") in categories]


def _ns(event: Event, key: str = "ts") -> int:
    return round(event[key] * 1000)


def flaws(trace: dict[str, Any]) -> list[str]:
    """Everything that is wrong with it."""
    events = trace["traceEvents"]
    return [*_fields(events), *_nesting(events), *_flows(events), *_rows(events), *_correlations(trace)]


def _fields(events: list[Event]) -> Iterator[str]:
    for event in events:
        needed = {"X": ("name", "cat", "ts", "dur", "pid", "tid"), "M": ("name", "pid", "args")}.get(
            event["ph"], ("ph",)
        )
        if missing := [key for key in needed if key not in event]:
            yield f"{event} lacks {missing}"
        elif event["ph"] == "X" and (event["dur"] < 0 or event["ts"] < 0):
            yield f"{event['name']} lasts {event['dur']} from {event['ts']}"


def _tracks(events: list[Event]) -> dict[Track, list[Event]]:
    tracks: dict[Track, list[Event]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def _nesting(events: list[Event]) -> Iterator[str]:
    """Check that slices of a track nest or follow each other; a range begins in the function that opens it."""
    for track, slices in _tracks([e for e in events if e.get("cat") != "user_annotation"]).items():
        open_until: list[tuple[int, str]] = []
        for event in sorted(slices, key=lambda e: (_ns(e), -_ns(e, "dur"))):
            start, end = _ns(event), _ns(event) + _ns(event, "dur")
            while open_until and open_until[-1][0] <= start + WIDER_NS:
                open_until.pop()
            if open_until and end > open_until[-1][0] + WIDER_NS:
                until, around = open_until[-1]
                yield f"on {track} {event['name']} ends {end - until} ns after {around}, in which it began"
            open_until.append((end, event["name"]))


def _flows(events: list[Event]) -> Iterator[str]:
    """Check that an arrow has one start, an end, and a slice at each."""
    tracks = _tracks(events)
    ends: dict[tuple[str, Any], list[str]] = defaultdict(list)
    for event in events:
        if event["ph"] not in ("s", "f"):
            continue
        ends[event["cat"], event["id"]].append(event["ph"])
        at = _ns(event)
        if not any(_ns(s) <= at <= _ns(s) + _ns(s, "dur") for s in tracks[event["pid"], event["tid"]]):
            yield f"an arrow {event['cat']} {event['id']} begins or ends at no slice"
    for (kind, number), found in ends.items():
        if found.count("s") != 1 or "f" not in found:
            yield f"arrow {kind} {number} has the ends {found}"


def _rows(events: list[Event]) -> Iterator[str]:
    """Check that device events are in named rows."""
    named = {
        (e["name"], e["pid"], e["tid"] if e["name"].startswith("thread") else None) for e in events if e["ph"] == "M"
    }
    used = {(e["pid"], e["tid"]) for e in events if e.get("cat") in DEVICE}
    for pid, tid in used:
        for name in ("process_name", "process_labels", "process_sort_index"):
            if (name, pid, None) not in named:
                yield f"device {pid} has no {name}"
        for name in ("thread_name", "thread_sort_index"):
            if (name, pid, tid) not in named:
                yield f"stream {tid} of device {pid} has no {name}"


def _correlations(trace: dict[str, Any]) -> Iterator[str]:
    """Check that every device event belongs to one earlier runtime call."""
    calls: dict[int, list[Event]] = defaultdict(list)
    for call in of(trace, "cuda_runtime"):
        calls[call["args"]["correlation"]].append(call)
    for number, made in calls.items():
        if len(made) > 1:
            yield f"several calls have the number {number}"
    for work in of(trace, *DEVICE):
        made = calls.get(work["args"]["correlation"], [])
        if not made:
            yield f"nothing launched {work['name']}"
        elif _ns(work) < _ns(made[0]):
            yield f"{work['name']} begins {_ns(made[0]) - _ns(work)} ns before it is launched"
        if work["args"]["stream"] != work["tid"] or work["args"]["device"] != work["pid"]:
            yield f"{work['name']} is in another row than it says"
