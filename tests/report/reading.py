"""Reads reports."""

from __future__ import annotations

import re
from pathlib import Path

#: (asked, given, line of the call site) -> how often
Counts = dict[tuple[str, str, int], int]


def rows(text: str) -> list[list[str]]:
    """The rows of the first table, cells apart."""
    lines = text.partition("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line) for line in lines[2:-1]]


def counts(text: str) -> Counts:
    """The first table, call sites by their lines alone."""
    return {(row[1], row[2], int(row[3].rpartition(":")[2])): int(row[0]) for row in rows(text)}


def reports(folder: Path) -> list[str]:
    """The names of all that lies in a folder."""
    return sorted(path.name for path in folder.iterdir())
