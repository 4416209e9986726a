"""A report for a terminal: with colors and boxes on a terminal if rich is installed, else in plain columns."""

from __future__ import annotations

import importlib.util
import io
import sys

from . import tables
from .advice import advice, table
from .document import Document
from .tables import Table
from .verdict import verdict

#: Rows of a table shown on a terminal; a file has them all.
SHOWN = 20


def _plain(table: Table, most: int) -> str:
    body = table.rows[:most]
    if not body:
        return f"{table.title}\n"
    widths = [max(len(row[column]) for row in (table.head, *body)) for column in range(len(table.head))]
    written = [table.title]
    for row in (table.head, *body):
        cells = [
            text.rjust(width) if column in table.right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        written.append("  " + "  ".join(cells).rstrip())
    written += _rest(table, most)
    return "\n".join(written) + "\n"


def _rest(table: Table, most: int) -> list[str]:
    more = len(table.rows) - most
    return [f"  ... and {more:,} more (a file has them all: --report out.html)"] if more > 0 else []


def plain(document: Document, most: int = sys.maxsize) -> str:
    """Return the report in columns."""
    head = [*tables.heading(document), "", *_verdict(document)]
    parts = ["\n".join(head) + "\n", *(_plain(each, most) for each in _tables(document))]
    return "\n".join(parts)


def _verdict(document: Document) -> list[str]:
    """Return the verdict in two lines."""
    found = verdict(document)
    return [found.headline, tables.cell(found.text)]


def _tables(document: Document) -> list[Table]:
    found = advice(document)
    return [table(found), *tables.all_of(document)] if found else tables.all_of(document)


def has_rich() -> bool:
    """Return whether rich is installed."""
    return importlib.util.find_spec("rich") is not None


def _rich(document: Document, width: int | None) -> str:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width)

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style=style), soft_wrap=True)

    for number, line in enumerate(tables.heading(document)):
        say(line, "" if number else "bold")
    say("")
    for number, line in enumerate(_verdict(document)):
        say(line, "" if number else "bold")
    for each in _tables(document):
        say("")
        say(each.title, "bold cyan")
        if not each.rows:
            continue
        grid = Grid(header_style="bold")
        for column, name in enumerate(each.head):
            grid.add_column(Text(name), justify="right" if column in each.right else "left", overflow="fold")
        for row in each.rows[:SHOWN]:
            grid.add_row(*map(Text, row))
        console.print(grid)
        for line in _rest(each, SHOWN):
            say(line)
    return out.getvalue()


def for_terminal(document: Document, colours: bool, width: int | None = None) -> str:
    """Write the text of ``--report -``; with ``colours`` for a terminal."""
    return _rich(document, width) if colours and has_rich() else plain(document, SHOWN)
