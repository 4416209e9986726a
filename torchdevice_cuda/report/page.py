"""A report as one self-contained page of HTML: without network or other files."""

from __future__ import annotations

import dataclasses
import linecache
from pathlib import Path

from . import tables
from .document import Document, Memory, Site
from .tables import Sum, duration, shown, sums

#: For a file with more lines than this, only the surroundings of relevant lines are shown.
_WHOLE = 1500
_AROUND = 8
#: Number of files shown, those with the most time first.
_FILES = 40


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a file; texts are empty if it cost nothing. ``heat`` is its share of the file's maximum, 0 to 1."""

    number: int
    text: str
    time: str = ""
    calls: str = ""
    copies: str = ""
    waits: str = ""
    heat: float = 0.0
    #: whether lines before it are omitted
    after_gap: bool = False


@dataclasses.dataclass(frozen=True)
class Source:
    """A file of the program."""

    name: str
    time: str
    lines: tuple[Line, ...]


def annotated(document: Document) -> list[Source]:
    """List every readable file with a line that cost time, a copy or a wait."""
    files: dict[str, dict[int, Sum]] = {}
    for site, each in sums(document.work, lambda row: row.site).items():
        if isinstance(site, Site) and site.file:
            files.setdefault(site.file, {})[site.line] = each
    spent = {file: sum(each.seconds for each in lines.values()) for file, lines in files.items()}
    found = []
    for file in sorted(files, key=lambda file: -spent[file])[:_FILES]:
        text = linecache.getlines(file)
        if text:
            found.append(Source(shown(file), duration(spent[file]), tuple(_lines(text, files[file]))))
    return found


def _lines(text: list[str], costs: dict[int, Sum]) -> list[Line]:
    most = max(each.seconds for each in costs.values()) or 1.0
    near = {number + step for number in costs for step in range(-_AROUND, _AROUND + 1)}
    shown_all = len(text) <= _WHOLE
    found: list[Line] = []
    last = 0
    for number, line in enumerate(text, 1):
        if not shown_all and number not in near:
            continue
        gap = number != last + 1
        last = number
        each = costs.get(number)
        if each is None:
            found.append(Line(number, line.rstrip("\r\n"), after_gap=gap))
            continue
        found.append(
            Line(
                number,
                line.rstrip("\r\n"),
                duration(each.seconds) if each.calls else "",
                f"{each.calls:,}" if each.calls else "",
                f"{each.copies:,}" if each.copies else "",
                f"{each.waits:,}" if each.waits else "",
                round(each.seconds / most, 3),
                gap,
            )
        )
    return found


#: Number of operators with their own part in the bar.
_PARTS = 8
#: The size of a curve, in its own units.
_WIDTH, _HEIGHT = 1000.0, 150.0


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the bar of time; ``share`` is in percent, ``colour`` a color number of the page."""

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
    """Return the whole page."""
    return fragment(document, "page.html.jinja")


def cells(document: Document) -> str:
    """Return only the tables, for a notebook."""
    return fragment(document, "notebook.html.jinja")


def fragment(document: Document, template: str) -> str:
    """Render a template with a report. All text of the program is escaped."""
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
        sources=annotated(document) if template.startswith("page") else [],
    )


def bar(document: Document) -> list[Part]:
    """Return the shares of time: on the GPU by operator, and elsewhere."""
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
    """Return the maximum allocated in each step of time."""
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
