"""A report as one self-contained page of HTML, without network or other files, or as a cell's output."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

from . import graphics, source, tables
from .advice import Advice, advice
from .document import Document
from .listing import annotated
from .tables import cell, shown
from .verdict import verdict

_ids = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class _Line:
    """A line of the program, with what it costs."""

    site: str
    link: str
    text: str
    cost: str


@dataclasses.dataclass(frozen=True)
class _Error:
    """A finding at a line of the program."""

    site: str
    link: str
    source: str
    text: str


@dataclasses.dataclass(frozen=True)
class _Group:
    """Advice that is the same for several lines."""

    title: str
    reason: str
    change: str
    lines: tuple[_Line, ...]


def page(document: Document) -> str:
    """Return the whole page."""
    return _render(document, "page.html.jinja", sources=annotated(document))


def cells(document: Document) -> str:
    """Return the output of a notebook's cell: the page without the source and with its tables closed."""
    return _render(document, "notebook.html.jinja", sources=[])


def _render(document: Document, template: str, **more: Any) -> str:
    """Render a template with a report. All text of the program is escaped."""
    import jinja2

    files = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
    environment = jinja2.Environment(
        loader=files, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found = verdict(document)
    return environment.get_template(template).render(
        # Unique among the outputs of a notebook, of which some may be of earlier processes.
        id=f"torchdevice-{document.processes[0].pid if document.processes else 0}-{next(_ids)}",
        title=tables.title(document),
        begun=cell(document.begun[:16].replace("T", " ")),
        heading=tables.heading(document),
        clock="Times are predictions." if document.predicted else "Times are those of the CPU that computed.",
        verdict=dataclasses.replace(found, text=cell(found.text)),
        advice=_groups(advice(document)),
        stories=graphics.stories(document),
        findings=[
            _Error(cell(shown(one.site)), source.link(one.site), cell(source.text_of(one.site)), cell(one.text))
            for one in document.findings
        ],
        bar=graphics.bar(document),
        charts=graphics.charts(document),
        data=graphics.timeline(document),
        tables=tables.all_of(document),
        **more,
    )


def _groups(pieces: list[Advice]) -> list[_Group]:
    """Join pieces of advice with one title, in the order of the first."""
    found: dict[str, list[Advice]] = {}
    for each in pieces:
        found.setdefault(each.title, []).append(each)
    return [
        _Group(
            cell(title),
            cell(each[0].reason),
            cell(each[0].change),
            tuple(_Line(cell(shown(one.site)), source.link(one.site), cell(one.text), one.cost) for one in each),
        )
        for title, each in found.items()
    ]
