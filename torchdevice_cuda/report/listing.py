"""The program's files with the costs of each line."""

from __future__ import annotations

import dataclasses
import linecache

from . import source
from .document import Document, Site
from .tables import Sum, cell, duration, shown, sums

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
    #: opens it in an editor, if a line's number follows
    link: str
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
            # Without the line, to which each line adds its own.
            opened = source.link(Site(file, 1)).removesuffix("1")
            found.append(Source(cell(shown(file)), opened, duration(spent[file]), tuple(_lines(text, files[file]))))
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
