"""The corpus of races: programs whose synchronizations are marked, and what a GPU printed without one of them."""

from __future__ import annotations

import json
import subprocess
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


@pytest.mark.slow
def test_table_shows_what_is_reported_and_what_seeds_show() -> None:
    """Programs run one after the other in forks of one process for each mode."""
    command = [sys.executable, str(ROOT / "tools" / "races"), "check", "--seeds", "4", "read_back", "own_kernel:19"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {words[0]: words for words in map(str.split, done.stdout.splitlines())}
    assert "no" in rows["read_back"]
    assert "yes" in rows["own_kernel:19"]
    assert "1 originals: 0 reported, 0 shown by other results within 4 seeds" in done.stdout
