"""Checks in processes: what becomes of those that hang, crash, or do not start."""

from __future__ import annotations

import dataclasses
import functools
import time
from pathlib import Path

import psutil
import pytest
from harness import clean_environment
from harness.processes import TESTS

from torchdevice_cuda.doctor.results import FAILED, OK, SKIPPED, Result
from torchdevice_cuda.doctor.running import Process, run
from torchdevice_cuda.doctor.table import Check


def _examined(patient: str, folder: Path, limit: float = 20, **environment: str) -> Result:
    check = Check(patient, "to be tested", f"doctor.patients.{patient}", limit=limit, bare=True)
    variables = clean_environment(**environment)
    variables["PYTHONPATH"] = f"{TESTS}:{variables['PYTHONPATH']}"
    started: list[Process] = []

    def begin() -> Process:
        started.append(Process(check, variables, folder))
        return started[0]

    assert [name for name, _ in run([begin], 1) if name] == [patient]
    return started[0].result


def _answers(result: Result) -> dict[str, tuple[str, str]]:
    return {answer.question: (answer.verdict, answer.found) for answer in result.answers}


def test_one_that_hangs_with_the_interpreter_held(tmp_path: Path) -> None:
    begun = time.monotonic()
    result = _examined("hanging", tmp_path, limit=1.5)
    answers = _answers(result)
    assert (result.verdict, answers["one"], answers["another"]) == (FAILED, (OK, "1"), (OK, "3"))
    verdict, words = answers["hangs"]
    assert verdict == FAILED
    assert words.startswith("no answer within 2 s, at File ")
    assert words.endswith("in hangs")
    assert "in hangs" in result.stack
    assert "hangs: no answer" in result.found
    assert time.monotonic() - begun < 20
    grandchild = int(result.output)
    assert not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE


def test_one_that_crashes(tmp_path: Path) -> None:
    result = _examined("crashing", tmp_path)
    answers = _answers(result)
    assert answers["is wrong"] == (FAILED, "two are three")
    assert answers["raises"] == (FAILED, "ValueError: no such thing")
    assert answers["crashes"][1].startswith("the process ended: signal 11 (Segmentation fault), at File ")
    assert "in crashes" in answers["crashes"][1]
    assert answers["is not here"] == (SKIPPED, "another machine has it")
    assert "exit status 3" in answers["exits"][1]
    assert "in crashes" not in answers["exits"][1]  # which is where another process was
    assert answers["is right"] == (OK, "as it should be")
    assert answers["says so"] == (FAILED, "at last")
    assert len(answers) == len(result.answers)
    assert "before it fails" in result.output
    assert "Traceback" in result.output
    assert result.found == "is wrong: two are three (and 4 more)"
    assert [answer.figures for answer in result.answers if answer.figures] == [{"figure": 1.5}]


def test_one_that_does_not_start(tmp_path: Path) -> None:
    result = _examined("ending", tmp_path, PATIENT="stillborn")
    (answer,) = result.answers
    assert answer.question == "before the first question"
    assert answer.found == "the process ended: exit status 1: there is no such package"


def test_one_that_fails_at_its_end(tmp_path: Path) -> None:
    result = _examined("ending", tmp_path)
    assert _answers(result) == {"one": (OK, ""), "at its end": (FAILED, "the process ended: exit status 5")}


def test_those_that_nobody_waits_for_are_ended(tmp_path: Path) -> None:
    check = Check("hanging", "to be tested", "doctor.patients.hanging", limit=60, bare=True)
    variables = clean_environment()
    variables["PYTHONPATH"] = f"{TESTS}:{variables['PYTHONPATH']}"
    started: list[Process] = []

    def begin(number: int) -> Process:
        folder = tmp_path / str(number)
        folder.mkdir()
        started.append(Process(dataclasses.replace(check, name=str(number)), variables, folder))
        return started[-1]

    running = run([functools.partial(begin, number) for number in range(3)], 2)
    assert next(running) == ("", ["0", "1"])
    deadline = time.monotonic() + 20
    while not all((tmp_path / str(number) / "answers").exists() for number in range(2)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    running.close()
    assert len(started) == 2
    for process in started:
        assert process._process.poll() is not None
        assert (process.result.verdict, process.result.found[:11]) == (SKIPPED, "interrupted")


@pytest.mark.parametrize("together", [1, 2])
def test_no_more_than_so_many_at_a_time(tmp_path: Path, together: int) -> None:
    check = Check("ending", "to be tested", "doctor.patients.ending", bare=True)
    variables = clean_environment(PATIENT="stillborn")
    variables["PYTHONPATH"] = f"{TESTS}:{variables['PYTHONPATH']}"

    def begin(number: int) -> Process:
        (tmp_path / str(number)).mkdir()
        return Process(dataclasses.replace(check, name=str(number)), variables, tmp_path / str(number))

    seen = list(run([functools.partial(begin, number) for number in range(3)], together))
    assert max(len(names) for _, names in seen) == together
    assert sorted(name for name, _ in seen if name) == ["0", "1", "2"]
