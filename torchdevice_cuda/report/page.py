"""A report as one page of HTML that needs nothing else: no network, no other file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from . import sources, tables
from .document import Document, Memory

#: Operators that have a part of their own in the bar.
_PARTS = 8
#: The size of a curve, in its own units.
_WIDTH, _HEIGHT = 1000.0, 150.0


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the bar of time; ``share`` is in percent, ``colour`` a number of the page's own."""

    name: str
    time: str
    share: float
    colour: int


@dataclasses.dataclass(frozen=True)
class Curve:
    """The memory of a device over time, as a path."""

    title: str
    path: str
    peak_x: float
    end: str


def page(document: Document) -> str:
    """The whole page."""
    return fragment(document, "page.html.jinja")


def cells(document: Document) -> str:
    """The tables alone, for a notebook, whose page it is."""
    return fragment(document, "notebook.html.jinja")


def fragment(document: Document, template: str) -> str:
    """What a template makes of a report. Whatever comes from the program is escaped."""
    import jinja2

    files = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(
        loader=files, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(template).render(
        heading=tables.heading(document),
        tables=tables.all_of(document),
        bar=bar(document),
        curves=[curve(one, len(document.memory) > 1) for one in document.memory if one.curve],
        sources=sources.annotated(document) if template.startswith("page") else [],
    )


def bar(document: Document) -> list[Part]:
    """Where the time went: on the GPU by operator, and elsewhere."""
    if not document.sees_device:
        return []
    whole = sum(process.seconds for process in document.processes) or 1e-9
    found = [
        (str(name), each.seconds) for name, each in tables.sums(tables.computed(document), lambda r: r.name).items()
    ]
    parts = found[:_PARTS]
    if found[_PARTS:]:
        parts.append((f"{len(found) - _PARTS} other operators", sum(seconds for _, seconds in found[_PARTS:])))
    parts.append(("everything else: Python, the host, waiting", max(0.0, whole - sum(s for _, s in found))))
    whole = max(whole, sum(seconds for _, seconds in parts))
    last = len(parts) - 1
    return [
        Part(
            tables.cell(name),
            tables.duration(seconds),
            round(100 * seconds / whole, 3),
            9 if number == last else number,
        )
        for number, (name, seconds) in enumerate(parts)
    ]


def curve(one: Memory, several: bool) -> Curve:
    """The most that was allocated in each step of time."""
    end = max(one.curve[-1][0], one.peak_at, 1e-6)
    start = min(one.curve[0][0], one.peak_at)
    span, most = max(end - start, 1e-6), max(one.peak, 1)

    def x(seconds: float) -> float:
        return round((seconds - start) / span * _WIDTH, 1)

    def y(size: int) -> float:
        return round(_HEIGHT - size / most * _HEIGHT, 1)

    path = [f"M{x(one.curve[0][0])},{_HEIGHT}"]
    before = 0
    for seconds, highest, left in one.curve:
        path.append(f"H{x(seconds)}V{y(max(highest, before))}V{y(highest)}")
        before = left
    path.append(f"H{_WIDTH}V{y(before)}V{_HEIGHT}Z")
    process = f" of process {one.process}" if several else ""
    return Curve(
        f"cuda:{one.device}{process}: {tables.size(one.peak)} at most, after {one.peak_at:.2f} s",
        "".join(path),
        x(one.peak_at),
        f"{start:.2f} s to {end:.2f} s",
    )
