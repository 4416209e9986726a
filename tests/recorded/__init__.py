"""Sets of cases that were recorded on a GPU and that tests run again: a file for each record of tests/data.

``tools/record/case_sets.py`` says what a set is. These import torch and nothing of ours, so that they run on a machine
with a GPU and stock torch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT / "tools") not in sys.path:
    sys.path.append(str(ROOT / "tools"))

from record import bits_table, case_sets, comparison, noting, row_coverage, running, store  # noqa: E402
from record.case_sets import Case  # noqa: E402
from record.comparison import find_difference  # noqa: E402

__all__ = [
    "ROOT",
    "Case",
    "bits_table",
    "case_sets",
    "comparison",
    "find_differences",
    "noting",
    "read_record",
    "row_coverage",
    "running",
    "store",
]


def read_record(name: str) -> dict[str, Any]:
    """Read the answers of a record of tests/data."""
    return store.read_answers(ROOT / "tests" / "data" / name)


def find_differences(cases: ModuleType, keep: Callable[[str], bool] = bool) -> dict[str, tuple[Any, Any]]:
    """Run cases in this process; those that are not as recorded, with the recorded answer and the one here."""
    record, differ = read_record(cases.RECORD), getattr(cases, "find_difference", find_difference)
    wrong = {}
    for name, run in cases.list_cases().items():
        if keep(name):
            here = json.loads(json.dumps(run()))
            if differ(record[name], here, Case(name, run)):
                wrong[name] = record[name], here
    return wrong
