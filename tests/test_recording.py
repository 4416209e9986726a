"""The recording engine: cases that fail or end their process, expected differences, what is chosen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from harness import run_forked
from harness.processes import ROOT
from recorded import case_sets, comparison, running

NO_GPU = "this machine has no CUDA GPU; to compare: tools/record compare"


def make_set(cases: dict[str, Any], **more: Any) -> Any:
    """Make a set of a namespace instead of a module."""
    return case_sets.CaseSet("some", SimpleNamespace(list_cases=lambda: cases, **more))  # type: ignore[arg-type]


def raise_error() -> None:
    raise ValueError("so")


def run_in_forks(cases: Any, patience: float = 30.0) -> dict[str, Any]:
    def start(names: list[str], path: Path) -> running.Process:
        return running.Fork(cases, names, path)

    units = running.divide(cases.cases, list(cases.cases))
    return {name: row for name, row, _ in running.run_units(cases.cases, units, start, jobs=2, patience=patience)}


def test_a_case_that_raises_or_ends_its_process_does_not_stop_the_others() -> None:
    cases = make_set({"one": lambda: 1, "raises": raise_error, "ends": lambda: os._exit(3), "two": lambda: 2})
    assert run_in_forks(cases) == {
        "one": 1,
        "raises": [running.FAILED, "ValueError: so"],
        "ends": [running.LOST, "status 3"],
        "two": 2,
    }


def test_a_case_that_hangs_is_ended() -> None:
    cases = make_set({"hangs": lambda: [None for _ in iter(int, 1)], "two": lambda: 2})
    assert run_in_forks(cases, patience=0.5) == {"hangs": [running.LOST, "it took too long"], "two": 2}


def test_cases_that_are_to_be_alone_have_a_process_each() -> None:
    alone = {name: case_sets.Case(name, os.getpid, alone=True) for name in ("one", "two")}
    found = run_in_forks(make_set({**alone, "three": os.getpid, "four": os.getpid}))
    assert found["three"] == found["four"]
    assert len({found["one"], found["two"], found["three"]}) == 3


@pytest.mark.parametrize(
    ("known", "surprising", "mended"),
    [
        ({}, ["b", "c"], []),
        ({"b": "why", "c": "why"}, [], []),
        ({"b": "why", "c": "why", "a": "why"}, [], ["a"]),
        ({"?": "why"}, [], []),
        ({"b": "why", "c": "why", "gone": "of a case that was not run"}, [], []),
    ],
    ids=["none", "listed", "equal", "pattern", "elsewhere"],
)
def test_expected_differences(known: dict[str, str], surprising: list[str], mended: list[str]) -> None:
    cases = make_set(dict.fromkeys("abcd", len))
    expected = comparison.Expected(known)
    result = comparison.compare(cases, list("abcd"), {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 0}, expected)
    assert [difference.fact for difference in result.surprising] == surprising
    assert result.mended == mended
    assert result.unrecorded == ["d"]
    assert (result.equal, result.facts) == (1, 3)
    assert {difference.fact: difference.how for difference in result.differences} == {"b": "differs", "c": "no answer"}


@pytest.mark.parametrize(("release", "facts"), [("2.7", {"b"}), ("2.8", {"a", "b"}), ("2.9", {"a"})])
def test_releases_of_expected_differences(
    release: str, facts: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    file = tmp_path / "expected.toml"
    row = '[[different]]\ndrivers = ["virtual"]\nwhy = "so"\n'
    file.write_text(f'least = {{virtual = 3}}\n{row}since = "2.8"\nfacts = ["a"]\n{row}until = "2.9"\nfacts = ["b"]\n')
    monkeypatch.setattr(torch, "__version__", f"{release}.0")
    assert comparison.read_expected(file, "virtual") == comparison.Expected(dict.fromkeys(facts, "so"), set(), 3)
    assert comparison.read_expected(file, "cpu") == comparison.Expected()


def test_a_fact_that_varies_never_counts_as_equal(tmp_path: Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[[different]]\ndrivers = ["cpu"]\nwhy = "by chance"\nvaries = true\nfacts = ["b"]\n')
    expected = comparison.read_expected(file, "cpu")
    for here in (2, 3):
        result = comparison.compare(
            make_set({"a": len, "b": len}), ["a", "b"], {"a": 1, "b": 2}, {"a": 1, "b": here}, expected
        )
        assert (result.equal, result.surprising, result.mended) == (1, [], [])


def test_cases_are_chosen_by_name_or_area() -> None:
    choose: Callable[..., list[str]] = case_sets.choose_cases
    names = ["amp.one", "amp.two", "rng.one"]
    assert choose(names, []) == names
    assert choose(names, ["amp"]) == names[:2]
    assert choose(names, ["rng.one"]) == ["rng.one"]
    assert choose(names, [], 2) == ["amp.one", "rng.one"]
    with pytest.raises(SystemExit, match="no such case or area: nope"):
        choose(names, ["nope"])


def test_without_a_gpu_nothing_is_recorded(tmp_path: Path) -> None:
    done = run_forked(ROOT / "tools" / "record", "record", "facts", "--to", tmp_path / "facts.json", check=False)
    assert (done.status, done.err) == (1, f"record facts: {NO_GPU}\n"), done
    assert not list(tmp_path.iterdir())
