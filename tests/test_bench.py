"""The command that runs every bench: what it reads, what it compares with budgets, what it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from harness.tools import tool

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return tool("bench/__main__.py")


def test_rows_of_either_form_are_read(bench: ModuleType) -> None:
    rows = [{"what": "add", "more_us": 1.5}, {"what": "step", "ratio": "1.20"}, {"what": "calls", "bytes": 0}]
    for text in (json.dumps(rows, indent=1), "a warning\n" + "\n".join(map(json.dumps, rows))):
        assert dict(bench.figures_of("virtual", bench.parsed(text))) == {"add, more us": 1.5, "step": 1.2}


def test_a_figure_is_held_against_the_first_budget_that_fits(bench: ModuleType) -> None:
    known = bench.budgets(
        'margin = 0.1\n[[budget]]\nfigure = "graphs: tiny"\nlimit = 0.5\n'
        '[[budget]]\nfigure = "graphs: *"\nlimit = 1.0\n'
        '[[budget]]\nfigure = "half: gpt"\nlimit = 1.0\n'
    )
    figures = [
        bench.Figure("graphs", "tiny", [0.4, 0.6, 0.45]),
        bench.Figure("graphs", "gpt", [1.05]),
        bench.Figure("graphs", "mlp", [1.2, 1.3]),
        bench.Figure("draws", "randn 10", [9.0]),
    ]
    assert [bench.verdict(each, known) for each in figures] == ["0.5", "1 noise", "1 OVER", ""]
    assert bench.unmet(figures, known, ["graphs", "draws"]) == ["over its budget: graphs: mlp, 1.25"]
    assert bench.unmet(figures[:1], known, ["half", "graphs"]) == [
        "nothing was measured for the budget 'graphs: *'",
        "nothing was measured for the budget 'half: gpt'",
    ]


def test_every_budget_is_of_a_bench_that_there_is(bench: ModuleType) -> None:
    known = bench.budgets((ROOT / "tools/bench/budgets.toml").read_text("utf-8"))
    assert {budget.pattern.partition(": ")[0] for budget in known} <= set(bench.BENCHES)
    scripts = [each.script or f"{name}.py" for name, each in bench.BENCHES.items()]
    assert [script for script in scripts if not (ROOT / "tools/bench" / script).exists()] == []


def test_the_page_has_a_place_for_the_table(bench: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(bench.PAGE.read_text("utf-8"), "utf-8")
    for value in (1.0, 2.0):
        bench.write(page, bench.table([bench.Figure("graphs", "gpt", [value])], []), {"rounds": 1})
    text = page.read_text("utf-8")
    assert "| gpt | 2.00 |" in text and "| gpt | 1.00 |" not in text and "Measured: rounds 1." in text
    parts = (bench.split_sections(each.partition(bench.BEGIN)[2]) for each in (text, bench.PAGE.read_text("utf-8")))
    now, earlier = (list(each) for each in parts)
    assert now == earlier
    page.write_text("no place", "utf-8")
    with pytest.raises(SystemExit, match="has no place"):
        bench.write(page, "", {})


def test_an_unknown_bench_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "tools/bench", "nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no such bench: nothing; there are startup" in done.stderr


@pytest.mark.slow
def test_a_bench_is_run_written_down_and_read_again(tmp_path: Path) -> None:
    history = tmp_path / "figures.jsonl"
    command = [sys.executable, str(ROOT / "tools/bench")]
    first = subprocess.run(
        [*command, "scaling", "--rounds", "1", "--history", str(history)], capture_output=True, text=True, check=True
    )
    again = subprocess.run([*command, "--from", str(history)], capture_output=True, text=True, check=True)
    assert first.stdout == again.stdout
    assert "### scaling" in first.stdout
