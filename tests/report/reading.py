"""Reads reports."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

from torchdevice_cuda.report.document import Document, from_json

#: (asked, given, line of the call site) -> how often
Counts = dict[tuple[str, str, int], int]


def read(file: Path) -> Document:
    """Return a report as data, from a file ``.json``."""
    return from_json(file.read_text(encoding="utf-8"))


def counts(document: Document) -> Counts:
    """Device requests, call sites by their lines alone."""
    return {(row.asked, row.given, int(row.site.rpartition(":")[2])): row.count for row in document.requests}


def reports(folder: Path) -> list[str]:
    """Return the names of all that lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


class Shape(HTMLParser):
    """The elements of a page and their attributes' names, without any text."""

    def __init__(self, shown: str) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.feed(shown)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
