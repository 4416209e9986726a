"""The tools that say how well the tests test: which changes they make, which tests they run on them, and in forks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = b'''"""What it is about."""
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import never as run

LIMIT: int = 3


def small(value: int = 0, *, strict: bool = True) -> str:
    """Not changed."""
    if value < LIMIT and not strict:
        print("two words")
        return "word"
    return f"{value}" "x"
'''


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Its modules, which find each other by their plain names."""
    names = ("changes", "forking", "recording", "mutating")
    before = {name: sys.modules.pop(name, None) for name in names}
    monkeypatch.syspath_prepend(str(ROOT / "tools/tested"))
    yield SimpleNamespace(**{name: __import__(name) for name in names})
    for name, module in before.items():
        sys.modules.pop(name)
        if isinstance(module, ModuleType):
            sys.modules[name] = module


def test_changes_are_of_what_runs(tools: SimpleNamespace) -> None:
    found = tools.changes.changes(SOURCE)
    seen = [(SOURCE[each.begin : each.end].decode(), each.after) for each in found if each.kind != "text"]
    assert seen == [
        ("3", "4"),
        ("0", "1"),
        ("True", "False"),
        ("value < LIMIT and not strict", "(value < LIMIT or not strict)"),
        ("value < LIMIT", "(value <= LIMIT)"),
        ("not strict", "(strict)"),
        ('print("two words")', "pass"),
        ('return "word"', "return None"),
        ('return f"{value}" "x"', "return None"),
    ]
    texts = [(SOURCE[each.begin : each.end].decode(), each.after) for each in found if each.kind == "text"]
    assert texts == [('"word"', "'word?'"), ('f"{value}" "x"', "''")]
    for each in found:
        assert tools.changes.compiles(SOURCE, each)
        assert each.applied(SOURCE) != SOURCE


def test_a_change_that_does_not_compile_is_left_out(tools: SimpleNamespace) -> None:
    assert not tools.changes.compiles(b"x = 1", tools.changes.Change(1, 4, 5, "text", "("))


def test_a_sample_is_the_same_for_a_seed(tools: SimpleNamespace) -> None:
    found = tools.mutating.mutants(["settings/__init__.py", "drivers/host"])
    assert {each.file.split("/")[1] for each in found} == {"settings", "drivers"}
    one, again, other = (tools.mutating.sample(found, 20, seed) for seed in (1, 1, 2))
    assert one == again
    assert one != other
    assert len({each.name for each in one}) == 20


def test_a_changed_file_is_newer_than_what_was_compiled(tools: SimpleNamespace, tmp_path: Path) -> None:
    tree = tools.mutating.Tree(tmp_path)
    name = "torchdevice_cuda/settings/__init__.py"
    times = []
    for source in (b"a = 1\n", b"a = 2\n"):
        tree.write(name, source)
        times.append(int((tmp_path / name).stat().st_mtime))
    assert times[1] > times[0]
    assert (tmp_path / "tests/test_settings.py").exists()


def test_files_of_tests_are_those_that_run_the_package(tools: SimpleNamespace) -> None:
    found = tools.recording.files(
        ["tests/drivers", "tests/test_settings.py", "tests/test_settings.py", "tests/harness"]
    )
    assert found.count("tests/test_settings.py") == 1
    assert "tests/drivers/test_offers.py" in found
    assert not any("harness" in name for name in found)


def test_the_likeliest_of_the_named_tests_come_first(tools: SimpleNamespace) -> None:
    names = {
        "tests/mps/test_events.py": 1.0,
        "tests/drivers/test_machine.py": 2.0,
        "tests/drivers/test_host_memory.py": 30.0,
        "tests/drivers/test_process_memory.py": 4.0,
    }
    (mutant, *_) = tools.mutating.mutants(["drivers/host/memory.py"])
    tests = tools.mutating.Tests(names)
    assert tests.of(mutant, 60) == [
        "tests/drivers/test_host_memory.py",
        "tests/drivers/test_process_memory.py",
        "tests/drivers/test_machine.py",
        "tests/mps/test_events.py",
    ]
    # The first is run however long it takes, and others while there is time.
    assert tests.of(mutant, 31.5) == ["tests/drivers/test_host_memory.py", "tests/mps/test_events.py"]
    assert tests.of(mutant, 3) == ["tests/drivers/test_host_memory.py"]


@pytest.mark.slow
def test_mutants_are_examined_with_named_tests(tools: SimpleNamespace) -> None:
    found = tools.mutating.mutants(["settings/__init__.py"])
    source = (ROOT / "torchdevice_cuda/settings/__init__.py").read_bytes()
    changed = {source[each.change.begin : each.change.end]: each for each in found}
    chosen = [changed[b"1 <= value <= 64"]]
    caught, survived = (
        next(iter(tools.mutating.examine(chosen, 60, named=[name])))
        for name in ("tests/test_settings.py", "tests/importing/test_finder.py")
    )
    assert (caught["came"], caught["by"]) == ("caught", "tests/test_settings.py")
    assert (survived["came"], survived["tried"]) == ("survived", ["tests/importing/test_finder.py"])


@pytest.mark.slow
def test_tests_run_in_forks(tools: SimpleNamespace, tmp_path: Path) -> None:
    tree = tools.mutating.Tree(tmp_path)
    tests = ["tests/test_settings.py", "tests/drivers/test_machine.py"]
    with tools.forking.Server(tmp_path) as server:
        assert server.pytest(tests).status == 0
        name = "torchdevice_cuda/settings/__init__.py"
        source = (tmp_path / name).read_bytes()
        tree.write(name, source.replace(b"1 <= value <= 64", b"1 <= value <= 65"))
        noticed = server.pytest(["-x", *tests])
        assert noticed.status == 1, noticed.said
        assert server.pytest(tests, seconds=0.01).killed
