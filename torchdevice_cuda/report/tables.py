"""A table of counts as plain text and as HTML."""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Sequence


def _cell(value: object) -> str:
    """A value on one line: names of files may hold line ends, and bytes that are no text."""
    text = str(value)
    return text if text.isprintable() else text.encode("unicode_escape", "backslashreplace").decode()


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows that begin with a count, under a title; ``unit`` is what is counted."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[int, str, str, str]]
    unit: str

    def total(self) -> str:
        """The last line."""
        return f"{sum(row[0] for row in self.rows)} {self.unit} in all"

    def text(self) -> str:
        """The table in columns."""
        body = [tuple(map(_cell, row)) for row in self.rows]
        widths = [max(len(row[column]) for row in (self.head, *body)) for column in range(len(self.head))]
        lines = (
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.head, *body)
        )
        return "\n".join([self.title, *lines, self.total(), ""])

    def html(self) -> str:
        """The table with its title."""
        head = "".join(f"<th>{html.escape(cell)}" for cell in self.head)
        cells = "\n".join(
            "<tr>" + "".join(f"<td>{html.escape(_cell(cell))}</td>" for cell in row) + "</tr>" for row in self.rows
        )
        return (
            f"<h1>{html.escape(self.title)}</h1><table><tr>{head}</tr>\n{cells}\n</table>\n"
            f"<p>{html.escape(self.total())}</p>\n"
        )


def text(tables: Sequence[Table]) -> str:
    """Tables one after the other."""
    return "\n".join(table.text() for table in tables)


def page(tables: Sequence[Table]) -> str:
    """An HTML page of tables, titled after the first."""
    return (
        f"<!doctype html><meta charset=utf-8><title>{html.escape(tables[0].title)}</title>"
        "<style>body{font-family:sans-serif}td,th{padding:.2em .8em;text-align:left}</style>"
        + "".join(table.html() for table in tables)
    )
