"""Comparisons and sets as text."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterable
from typing import Any

from record.comparison import Comparison

#: As much of an answer is printed.
SHOWN = 400


def format_table(rows: Iterable[Iterable[Any]]) -> str:
    """Lay out rows in columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells)


def format_share(part: int, whole: int) -> str:
    """Write a share as a count and a percentage."""
    return f"{part} of {whole} ({100 * part / max(1, whole):.1f}%)"


def format_comparison(result: Comparison, place: str, gpu: str, verbose: bool = False, brief: bool = False) -> str:
    """Write what differs and is not expected to, what no longer differs, and the counts."""
    lines = []
    for difference in result.differences:
        if verbose or not (difference.why or brief):
            why = f": {difference.why}" if difference.why else ""
            there, here = (json.dumps(value)[:SHOWN] for value in (difference.there, difference.here))
            lines.append(f"{difference.fact}{why}\n    GPU:  {there}\n    here: {here}")
    lines += [f"{fact}: as on the GPU, take it off the list" for fact in result.mended]
    lines += [f"{name}: not recorded" for name in result.unrecorded]
    kinds = collections.Counter(difference.how for difference in result.differences)
    lines += [f"{count:6d}  {kind}" for kind, count in sorted(kinds.items())] if len(kinds) > 1 else []
    if result.alike > result.equal:
        lines.append(f"{place}: {format_share(result.alike, result.facts)} behave alike")
    listed = len(result.differences) - len(result.surprising)
    lines.append(
        f"{place}: {format_share(result.equal, result.facts)} facts as on {gpu}, {listed} differ as expected; "
        f"{result.whole} of {result.cases} cases in every fact"
    )
    return "\n".join(lines)
