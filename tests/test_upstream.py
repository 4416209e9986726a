"""tools/upstream: every test of a file has an outcome, whatever the others do, and is compared with what is said."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from harness import tools
from harness.processes import ROOT

SUITE = """
import os, signal, time, unittest
import torch

class TestIt(unittest.TestCase):
    def test_a_passes(self): assert torch.cuda.is_available()
    def test_b_fails(self): raise RuntimeError("so it is\\nand more")
    def test_c_is_skipped(self): self.skipTest("not today")
    def test_d_crashes(self): os.kill(os.getpid(), signal.SIGSEGV)
    @unittest.expectedFailure
    def test_e_is_expected_to_fail(self): assert False
    def test_f_hangs(self): time.sleep(600)
    def test_g_fails_at_the_end(self): self.addCleanup(self.fail, "not cleared away")
"""
EXPECTED = """
least = {cpu = 1}
[[expected]]
tests = ["TestIt::test_[bg]_*"]
drivers = ["cpu", "virtual"]
outcome = "failed"
reason = "it is so"
[[expected]]
tests = ["TestIt::test_d_crashes"]
drivers = ["cpu"]
outcome = "crashed"
reason = "it is so, too"
[[expected]]
tests = ["TestIt::test_f_*"]
drivers = ["cpu"]
outcome = "hangs"
reason = "and this"
"""
OUTCOMES = {
    "a_passes": ("passed", ""),
    "b_fails": ("failed", "RuntimeError: so it is"),
    "c_is_skipped": ("skipped", "not today"),
    "d_crashes": ("crashed", "SIGSEGV"),
    "e_is_expected_to_fail": ("passed", ""),
    "f_hangs": ("hangs", "after 4 s"),
    "g_fails_at_the_end": ("failed", "AssertionError: not cleared away"),
}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    made = tools.tool("upstream/__main__.py")
    monkeypatch.setattr(made, "EXPECTED", tmp_path / "expected")
    (tmp_path / "expected").mkdir()
    (tmp_path / "source" / "test").mkdir(parents=True)
    return made


def results(**changed: str) -> list[dict[str, str]]:
    told = {name: (changed.get(name, outcome), words) for name, (outcome, words) in OUTCOMES.items()}
    return [{"test": f"test_it.py::TestIt::test_{n}", "outcome": o, "words": w} for n, (o, w) in told.items()]


def test_differences_are_reported(tool: ModuleType, tmp_path: Path) -> None:
    def complaints(driver: str = "cpu", whole: bool = True, **changed: str) -> list[str]:
        return list(tool.Expectations.read(path).complaints(results(**changed), driver, whole=whole))

    path = tmp_path / "expected" / "test_it.toml"
    path.write_text(EXPECTED)
    assert complaints() == []
    assert complaints(b_fails="passed") == [
        "TestIt::test_b_fails passed, expected: failed (it is so) RuntimeError: so it is"
    ]
    assert complaints(a_passes="failed") == ["TestIt::test_a_passes failed: "]
    assert complaints(a_passes="skipped", e_is_expected_to_fail="skipped") == ["0 passed, at least 1 are expected"]
    assert [c.partition(" ")[0] for c in complaints("virtual")] == ["TestIt::test_d_crashes", "TestIt::test_f_hangs"]
    path.write_text(EXPECTED.replace("test_f_*", "test_x_*"))
    assert complaints(f_hangs="passed") == ["no test answers to TestIt::test_x_* (and this)"]
    assert complaints(f_hangs="passed", whole=False) == []
    for wrong, words in (("hangs", "outcome 'waits' is none of passed"), ("virtual", "drivers 'waits' is none of")):
        path.write_text(EXPECTED.replace(f'"{wrong}"', '"waits"'))
        with pytest.raises(SystemExit, match=words):
            complaints()


def test_outcomes_of_a_gpu_are_compared(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A test that passes there is to pass; it does not matter what becomes of the others."""
    junit, lines = tmp_path / "gpu.xml", tmp_path / "gpu.jsonl"
    case = '<testcase classname="test.folder.test_it.TestIt" name="test_{}">{}</testcase>'
    cases = [case.format("a_passes", ""), case.format("b_fails", '<failure message="so it is"/>')]
    cases.append(case.format("e_is_expected_to_fail", '<skipped type="pytest.xfail"/>'))
    cases.append(case.format("c_is_skipped", '<skipped type="pytest.skip"/>'))
    junit.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    lines.write_text('{"test": "folder/test_it.py::TestIt::test_d_crashes", "outcome": "unknown", "words": ""}\n')
    assert tool.main(["--keep", "A GPU", str(junit), str(lines)]) == 0
    assert "folder/test_it.py: 2 of 5 tests pass" in capsys.readouterr().out
    path = tmp_path / "expected" / "folder" / "test_it.toml"
    assert path.with_suffix(".gpu").read_text().splitlines() == [
        "# A GPU: 2 of 5 tests pass",
        "failed TestIt::test_b_fails",
        "passed TestIt::test_a_passes",
        "passed TestIt::test_e_is_expected_to_fail",
        "skipped TestIt::test_c_is_skipped",
        "unknown TestIt::test_d_crashes",
    ]
    path.write_text('settings = ["compile=triton"]')
    expectations = tool.Expectations.read(path)
    assert expectations.settings == ["compile=triton"]
    found = [result for result in results() if "test_f" not in result["test"] and "test_g" not in result["test"]]
    assert list(expectations.complaints(found, "virtual", whole=True)) == []
    assert expectations.count_as_on_gpu(found) == (2, 2)
    found[0]["outcome"] = "skipped"
    assert list(expectations.complaints(found, "virtual", whole=True)) == ["TestIt::test_a_passes skipped: "]
    assert expectations.count_as_on_gpu(found) == (2, 1)
    path.with_suffix(".gpu").write_text("# An older list, without those that pass\nfailed TestIt::test_b_fails\n")
    older = tool.Expectations.read(path).gpu
    assert older.passes("TestIt::test_a_passes") and older.passes("TestIt::test_of_which_it_says_nothing")
    assert not expectations.gpu.passes("TestIt::test_of_which_it_says_nothing")


def test_a_sample_takes_tests_of_gpus_first(tool: ModuleType) -> None:
    tests = [f"test_it.py::TestIt::test_{i}{'_cuda' if i % 3 == 0 else ''}" for i in range(30)]
    drawn = [tool._draw(tests, 12, seed, gpu_first=True) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [sum("cuda" in test for test in sample) for sample in drawn] == [10] * 3
    assert len(set(drawn[0])) == len(drawn[0]) == 12
    assert sum("cuda" in test for test in tool._draw(tests, 12, 0, gpu_first=False)) < 10


def test_a_row_counts_what_ran(tool: ModuleType) -> None:
    row = tool._row("test_it.py", results(), {"there": 70, "part": "7 by seed 1"})
    assert row == "| test_it.py | 70 | 7 by seed 1 | 2 | 1 | 4 | 33.3% | - |"
    assert tool.HEAD.count("|") == row.count("|")


def test_the_list_of_pytorchs_tests_is_valid(tool: ModuleType) -> None:
    files = sorted((ROOT / "tests" / "upstream").rglob("*.toml"))
    assert files
    for path in files:
        lines = tool.Expectations.read(path).lines
        assert all(line.reason and line.tests and line.outcome != "passed" for line in lines), path


@pytest.mark.slow
def test_a_file_survives_its_tests(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source" / "test" / "test_it.py").write_text(SUITE)
    (tmp_path / "expected" / "test_it.toml").write_text(EXPECTED)
    given = ["--source", str(tmp_path / "source"), "--driver", "cpu", "--folder", str(tmp_path / "out"), "--limit", "4"]
    assert tool.main(given) == 0, capsys.readouterr().out
    kept = list(tool.read_lines(tmp_path / "out" / "cpu" / "test_it.jsonl"))
    assert {k["test"].partition("::test_")[2]: (k["outcome"], k["words"]) for k in kept} == OUTCOMES
    assert "2 passed, 1 skipped, 2 failed, 1 crashed, 1 hangs; 0 otherwise than expected" in capsys.readouterr().out
    assert tool.main([*given, "--table"]) == 0
    assert "| test_it.py | 7 | all | 2 | 1 | 4 | 33.3% | - |" in capsys.readouterr().out
    assert tool.main([*given, "--resume"]) == 0, "nothing is left to run"
    (tmp_path / "source" / "test" / "test_it.py").write_text(SUITE.replace("time.sleep(600)", "pass"))
    assert tool.main([*given, "--again", "--once"]) == 1
    assert "TestIt::test_f_hangs passed, expected: hangs (and this)" in capsys.readouterr().out
    (tmp_path / "names").write_text("test_it.py::TestIt::test_a_passes\n")
    assert tool.main([*given, "--sample", "0", "--also", str(tmp_path / "names")]) == 0
    kept = list(tool.read_lines(tmp_path / "out" / "cpu" / "test_it.jsonl"))
    assert [line["test"] for line in kept] == ["test_it.py::TestIt::test_a_passes"]
    assert tool.main([*given, "--table"]) == 0
    assert "| test_it.py | 7 | some by name | 1 | 0 | 0 | 100.0% | - |" in capsys.readouterr().out
    assert tool.main([*given, "-k", "fails", "--sample", "1", "--seed", "3"]) == 0
    assert len(list(tool.read_lines(tmp_path / "out" / "cpu" / "test_it.jsonl"))) == 1
