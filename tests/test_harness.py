"""The harness reports what fails in a child: without that, every other test could pass for nothing."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from pathlib import Path

import pytest
from harness import CPU, STOCK, in_child, outcome, python, run, together
from harness.processes import TESTS

SAMPLE = TESTS / "harness" / "sample.py"
#: What becomes of each test of the sample.
ENDS = {
    "test_passes[stock]": "PASSED",
    "test_gets_its_arguments[stock-value0]": "PASSED",
    "test_gets_its_arguments[stock-text]": "PASSED",
    "test_fails[stock]": "FAILED",
    "test_skips[stock]": "SKIPPED",
    "test_dies[stock]": "FAILED",
    "test_hangs[stock]": "FAILED",
    "test_forgets_a_fork[stock]": "PASSED",
    "test_goes_on_after_the_others[stock]": "PASSED",
    "test_ends_badly[stock]": "FAILED",
    "test_does_not_start[gone]": "FAILED",
    "test_is_the_same[set]": "PASSED",
    "test_is_not_the_same[set]": "FAILED",
    "test_shares_a_process_with_those_before[stock]": "PASSED",
    "test_shares_a_process_with_those_after[stock]": "PASSED",
    "test_has_a_process_of_its_own[stock]": "PASSED",
}


@functools.cache
def sample() -> str:
    """What pytest says of the sample."""
    return python("-m", "pytest", "-n", "0", "-v", "-v", "-p", "no:cacheprovider", SAMPLE, check=False).out


def section(name: str) -> str:
    """What pytest says of a test that failed."""
    return re.split(r"\n_+ ", sample().partition(f" {name} ")[2])[0]


@pytest.mark.parametrize("name", ENDS)
def test_end(name: str) -> None:
    assert f"sample.py::{name} {ENDS[name]}" in sample()


def test_a_failure_is_shown_with_its_line_its_names_and_what_was_printed() -> None:
    shown = section("test_fails[stock]")
    assert 'assert seen == "something else"' in shown
    assert "seen = 'what was seen'" in shown
    assert "said before" in shown
    assert "not shown" not in shown


def test_a_death_is_shown_with_its_status_and_last_words() -> None:
    assert "exit status 3" in section("test_dies[stock]")
    assert "last words" in section("test_dies[stock]")


def test_a_hang_is_shown_with_its_line() -> None:
    assert "in test_hangs" in section("test_hangs[stock]")


def test_a_bad_end_is_shown() -> None:
    assert "did not end well after it, exit status 4" in section("test_ends_badly[stock]")


def test_a_place_that_cannot_be_made_is_shown() -> None:
    assert "gone: the child did not get as far as the test" in section("test_does_not_start[gone]")


def test_a_difference_is_shown() -> None:
    assert "assert '1' == None" in section("test_is_not_the_same[set]")


# --------------------------------------------------------------------- functions in children
def echo(value: object) -> object:
    return value


def raise_an_error() -> None:
    raise ValueError("the words of it")


def say() -> None:
    print("on standard output")
    print("on standard error", file=sys.stderr)


def variables() -> dict[str, str]:
    return dict(os.environ)


def test_values_go_there_and_back() -> None:
    assert in_child(echo, STOCK, {"a": [1, 2.5, None, "x"]}) == {"a": [1, 2.5, None, "x"]}


def test_an_error_is_the_tests() -> None:
    with pytest.raises(pytest.fail.Exception, match="ValueError: the words of it"):
        in_child(raise_an_error, STOCK)


def test_what_is_printed_is_kept_apart() -> None:
    found = together(STOCK, [raise_an_error, say])
    assert found["say"].out == "on standard output\n"
    assert found["say"].err == "on standard error\n"
    assert found["raise_an_error"].out == ""


def test_arguments_are_literals() -> None:
    with pytest.raises(ValueError, match="arguments in a child are literals"):
        in_child(echo, STOCK, Path("x"))


def test_functions_are_of_a_file() -> None:
    with pytest.raises(ValueError, match="not a function of a file"):
        in_child(lambda: None, STOCK)


def test_settings_of_this_process_do_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDEVICE_DRIVER", "no such driver")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    monkeypatch.setenv("TORCHDEVICE_CACHE_DIR", "/kept")
    seen = in_child(variables, CPU.within(ADDED="1"))
    assert seen.keys() & {"TORCHDEVICE_DRIVER", "CUDA_VISIBLE_DEVICES", "PYTHONWARNINGS"} == set()
    assert seen["TORCHDEVICE_CACHE_DIR"] == "/kept"
    assert seen["ADDED"] == "1"


def test_torch_is_imported_after_activation() -> None:
    assert in_child(is_available, STOCK) is False
    assert in_child(is_available, CPU) is True


def is_available() -> bool:
    import torch

    return torch.cuda.is_available()


# -------------------------------------------------------------------------------- commands
def test_a_command_that_fails_is_the_tests() -> None:
    with pytest.raises(pytest.fail.Exception, match="exit status 5"):
        python("-c", "raise SystemExit(5)")
    assert python("-c", "raise SystemExit(5)", check=False).status == 5


def test_a_command_reads_its_input() -> None:
    assert python("-c", "print(input())", text="a line\n").out == "a line\n"


def test_a_command_that_hangs_is_killed_with_its_children() -> None:
    sleep = "import time; time.sleep(600)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {sleep!r}])"
    before = time.monotonic()
    done = run([sys.executable, "-c", code], timeout=2)
    assert done.killed
    assert time.monotonic() - before < 30


def test_the_outcome_of_one_function() -> None:
    assert outcome(say, STOCK).err == "on standard error\n"
