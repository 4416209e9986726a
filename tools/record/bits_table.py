"""How near results are to a GPU's, by operator: the same bits, or a distance in units in the last place.

The table is on docs/operators.md. Which results have the same bits is in ``tests/recorded/expected/bits.toml``, and
``python tools/record compare bits --driver virtual`` compares it; the distances in that file were measured once.
"""

from __future__ import annotations

import collections
import fnmatch
from typing import Any

from record import store
from record.case_sets import load_set

#: Half precision has one table: it differs little between its two types.
KINDS = {"float32": "float32", "float16": "half", "bfloat16": "half"}


def read_distances() -> dict[tuple[str, str], int]:
    """Read the largest distances, by operator and kind of type."""
    rows = _read_expected()["ulps"]
    return {(operator, kind): distance for kind, found in rows.items() for operator, distance in found.items()}


def count_equal() -> dict[tuple[str, str], tuple[int, int]]:
    """Count results that are expected to be equal, and all, by operator and kind of type."""
    patterns = [pattern for row in _read_expected()["different"] for pattern in row["facts"]]
    found: dict[tuple[str, str], tuple[int, int]] = collections.defaultdict(lambda: (0, 0))
    for case in store.read_answers(load_set("bits").record):
        operator, dtype, *_ = case.split()
        equal, cases = found[operator, KINDS[dtype]]
        is_equal = not any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns)
        found[operator, KINDS[dtype]] = equal + is_equal, cases + 1
    return dict(found)


def format_table() -> list[str]:
    """Format the table as lines of Markdown."""
    counts, distances = count_equal(), read_distances()
    lines = ["| operator | float32 | float16, bfloat16 |", "| --- | --- | --- |"]
    for operator in sorted({operator for operator, _ in counts}):
        cells = [
            _describe(counts.get((operator, kind)), distances.get((operator, kind))) for kind in ("float32", "half")
        ]
        lines.append(f"| `{operator}` | {' | '.join(cells)} |")
    return lines


def _describe(count: tuple[int, int] | None, distance: int | None) -> str:
    if count is None:
        return ""
    equal, cases = count
    return f"same bits ({cases} results)" if equal == cases else f"within {distance} ulp ({cases} results)"


def _read_expected() -> dict[str, Any]:
    from torchdevice_cuda._compat import read_toml

    path = load_set("bits").expected
    assert path is not None
    return read_toml(path)
