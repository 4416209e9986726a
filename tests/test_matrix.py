"""tools/matrix.py: finished checks are kept, failures and known failures reported. On this interpreter's torch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from harness import tools
from harness.processes import ROOT

ROW = f"torch-{torch.__version__}-here-py{sys.version.partition(' ')[0]}"


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load the tool, with checks that take no time."""
    tool = tools.tool("matrix.py")

    def check(code: str, seconds: int = 60, **more: object) -> object:
        return tool.Check(seconds, (tool.Step(("-c", code), {"SAID": "3 passed"}),), **more)

    checks = {
        "passing": check("import os, torchdevice_cuda; print(os.environ['SAID'], torchdevice_cuda.__file__)"),
        "failing": check("print('1 passed'); raise SystemExit('FAILED test_it - because')"),
        "raising": check("import atexit; atexit.register(print, 'last words'); raise ValueError('so it is')"),
        "hanging": check("import time; print('begun', flush=True); time.sleep(60)", seconds=2),
        "compared": check("print('TOTAL 7/9'); raise SystemExit(1)", figure=r"TOTAL (\d+)/", compared=True),
    }
    monkeypatch.setattr(tool, "CHECKS", checks)
    monkeypatch.setattr(tool, "TORCH", repr(torch.__version__))  # to import it again and again takes most of the time
    return tool


def run(tool: ModuleType, folder: Path, *arguments: str) -> int:
    return tool.main(["--folder", str(folder), *arguments])


def test_checks_name_files_and_tests_that_exist() -> None:
    """``--oracle`` once named files that had moved."""
    checks = tools.tool("matrix.py").CHECKS
    words = [word for check in checks.values() for step in check.steps for word in step.arguments]
    named = [word.partition("::") for word in words if word.startswith(("tests/", "tools/", "examples/"))]
    assert {path for path, _, _ in named} >= {"tools/record", "tools/gap.py", "tests/test_facts.py"}
    assert [path for path, _, _ in named if not (ROOT / path).exists()] == []
    tests = [(path, name.partition("[")[0]) for path, _, name in named if name]
    assert [(path, name) for path, name in tests if f"def {name}(" not in (ROOT / path).read_text()] == []
    assert not any("{" in word for word in words)


def test_the_version_is_that_of_the_interpreters_torch() -> None:
    tool = tools.tool("matrix.py")
    assert tool.of_interpreter(sys.executable, tool.TORCH) == torch.__version__


def test_finished_checks_are_not_repeated(
    matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(matrix, tmp_path, "--here", "--checks", "passing") == 0
    log = tmp_path / "logs" / f"{ROW}-passing.log"
    assert str(ROOT) in log.read_text()  # this checkout was run, whatever is installed
    log.unlink()
    assert f"| {torch.__version__} | {sys.version.partition(' ')[0]} | ok 3 " in capsys.readouterr().out
    assert run(matrix, tmp_path, "--here", "--checks", "passing") == 0
    assert f"{ROW} passing: done already" in capsys.readouterr().out
    assert not log.exists()
    assert run(matrix, tmp_path, "--here", "--checks", "passing", "--again") == 0
    assert log.exists()
    log.unlink()
    monkeypatch.setattr(matrix, "commit", lambda: "later")
    assert run(matrix, tmp_path, "--table") == 0
    assert "| ok* 3 " in capsys.readouterr().out  # of an earlier commit
    assert run(matrix, tmp_path, "--here", "--checks", "passing") == 0
    assert log.exists()


FAILURES = {
    "failing": "FAILED: FAILED test_it - because",
    "raising": "FAILED: ValueError: so it is",
    "hanging": "FAILED: still running after 2 s",
}


def test_a_failure_is_reported(matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(matrix, tmp_path, "--here", "--checks", *FAILURES, "passing") == 1
    said = capsys.readouterr().out
    for name, text in FAILURES.items():
        assert f"{ROW} {name}: {text} ({tmp_path / 'logs' / f'{ROW}-{name}.log'})" in said
    assert "| ok 3 " in said
    assert run(matrix, tmp_path, "--table") == 1
    assert said.endswith(capsys.readouterr().out)


def test_a_known_failure_that_passes_is_reported(
    matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = ".".join(torch.__version__.split(".")[:2])
    monkeypatch.setattr(matrix, "KNOWN", {(release, "failing"): "it has to", (release[:-1], "passing"): "of others"})
    assert run(matrix, tmp_path, "--here", "--checks", "failing", "passing") == 0
    assert f"{ROW} failing: known: it has to" in capsys.readouterr().out
    monkeypatch.setattr(matrix, "KNOWN", {(release, "passing"): "it had to"})
    assert run(matrix, tmp_path, "--here", "--checks", "passing") == 1
    assert f"{ROW} passing: PASSES: no longer fails: it had to" in capsys.readouterr().out


def test_figures_are_compared_between_versions(
    matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(matrix, tmp_path, "--here", "--checks", "compared") == 0
    assert "| ok 7 " in capsys.readouterr().out
    file = tmp_path / "results.json"
    rows = json.loads(file.read_text())
    rows["torch-9.9"] = json.loads(json.dumps(rows[ROW]))
    rows["torch-9.9"]["checks"]["compared"]["figures"] = ["8"]
    file.write_text(json.dumps(rows))
    assert run(matrix, tmp_path, "--table") == 1
    assert f"{ROW} compared: FAILED: 7 in place 1, 8 in torch-9.9" in capsys.readouterr().out
    monkeypatch.setattr(matrix, "OTHERWISE", {".".join(torch.__version__.split(".")[:2]): 1})
    assert run(matrix, tmp_path, "--table") == 0


def test_a_version_that_cannot_be_installed_is_a_row(
    matrix: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(matrix, "SPACE", 1)
    assert run(matrix, tmp_path, "--versions", "0.0.1", "--checks", "passing") == 1
    said = capsys.readouterr().out
    assert "| 0.0.1 |" in said
    assert "not installed: ERROR: Could not find a version that satisfies the requirement" in said
    assert not list(tmp_path.glob("torch-*"))
    monkeypatch.setattr(matrix, "SPACE", 2**60)
    assert run(matrix, tmp_path, "--versions", "0.0.1", "--checks", "passing") == 1
    assert "GiB free of the 1073741824 that an environment may take" in capsys.readouterr().out
