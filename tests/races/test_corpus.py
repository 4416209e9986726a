"""The corpus of races: programs whose synchronizations are marked, and what a GPU printed without one of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))

from races.mutants import list_mutants, list_originals  # noqa: E402

RECORD = ROOT / "tests" / "data" / "races-cuda-2.11.json"


@pytest.fixture
def recorded() -> Iterator[dict[str, dict[str, int]]]:
    yield json.loads(RECORD.read_text())["programs"]


def test_record_has_every_variant_of_its_programs(recorded: dict[str, dict[str, int]]) -> None:
    programs = [p for p in [*list_originals(), *list_mutants()] if p.path.stem in recorded]
    assert {program.name for program in programs} == set(recorded)


def test_originals_printed_the_same_in_every_run_on_a_gpu(recorded: dict[str, dict[str, int]]) -> None:
    assert {recorded[p.name]["differing"] for p in list_originals() if p.name in recorded} == {0}


def test_mutant_lacks_one_line() -> None:
    for mutant in list_mutants():
        lines, all_lines = mutant.text.splitlines(), mutant.path.read_text().splitlines()
        assert [n for n, pair in enumerate(zip(lines, all_lines, strict=True), 1) if pair[0] != pair[1]] == [
            mutant.removed
        ]
        assert compile(mutant.text, str(mutant.path), "exec")
