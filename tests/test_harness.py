"""The harness reports what fails in a child: without that, every other test could pass for nothing."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
import time
from pathlib import Path

import psutil
import pytest
from harness import CPU, STOCK, in_child, outcome, python, run, run_forked, running, servers, together
from harness.processes import TESTS, clean_environment

SAMPLE = TESTS / "harness" / "sample.py"
#: What becomes of each test of the sample: of those that end in a new process and in a fork, and of the others.
EITHER = {
    "test_passes": "PASSED",
    "test_fails": "FAILED",
    "test_skips": "SKIPPED",
    "test_dies": "FAILED",
    "test_hangs": "FAILED",
    "test_forgets_a_fork": "PASSED",
    "test_goes_on_after_the_others": "PASSED",
    "test_ends_badly": "FAILED",
    "test_shares_a_process_with_those_before": "PASSED",
    "test_shares_a_process_with_those_after": "PASSED",
    "test_has_a_process_of_its_own": "PASSED",
}
PLACES = ("stock", "stock after")
ENDS = {
    **{f"{name}[{place}]": end for name, end in EITHER.items() for place in PLACES},
    "test_gets_its_arguments[stock-value0]": "PASSED",
    "test_gets_its_arguments[stock-text]": "PASSED",
    "test_does_not_start[gone]": "FAILED",
    "test_is_the_same[set]": "PASSED",
    "test_is_not_the_same[set]": "FAILED",
}
either = pytest.mark.parametrize("where", PLACES)


@functools.cache
def sample() -> str:
    """Run pytest on the sample and return its output."""
    return python("-m", "pytest", "-n", "0", "-v", "-v", "-p", "no:cacheprovider", SAMPLE, check=False).out


def section(name: str) -> str:
    """Return pytest's section on a failed test."""
    return re.split(r"\n_+ ", sample().partition(f" {name} ")[2])[0]


@pytest.mark.parametrize("name", ENDS)
def test_end(name: str) -> None:
    assert f"sample.py::{name} {ENDS[name]}" in sample()


@either
def test_a_failure_is_shown_with_its_line_its_names_and_what_was_printed(where: str) -> None:
    shown = section(f"test_fails[{where}]")
    assert 'assert seen == "something else"' in shown
    assert "seen = 'what was seen'" in shown
    assert "said before" in shown
    assert "not shown" not in shown


@either
def test_a_death_is_shown_with_its_status_and_last_words(where: str) -> None:
    assert "exit status 3" in section(f"test_dies[{where}]")
    assert "last words" in section(f"test_dies[{where}]")


@either
def test_a_hang_is_shown_with_its_line(where: str) -> None:
    assert "in test_hangs" in section(f"test_hangs[{where}]")


@either
def test_a_bad_end_is_shown(where: str) -> None:
    assert "did not end well after it, exit status 4" in section(f"test_ends_badly[{where}]")


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


def test_output_is_kept_apart() -> None:
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
    assert in_child(is_available, CPU.anew()) is True


def is_available() -> bool:
    import torch

    return torch.cuda.is_available()


def is_a_fork() -> bool:
    parent = psutil.Process().parent()
    return parent is not None and "--serve" in parent.cmdline()


def test_a_child_that_may_be_is_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is none where somebody looks whether torch is imported, or sets what torch reads while it is."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    cache_dir()  # its place is written into the environment of this process
    assert in_child(is_a_fork, CPU) is True
    assert in_child(is_a_fork, STOCK.when("after")) is True
    assert in_child(is_a_fork, CPU.within(CUDA_VISIBLE_DEVICES="0")) is True
    for place in (STOCK, CPU.anew(), CPU.within(TORCH_LOGS="-dynamo")):
        assert in_child(is_a_fork, place) is False
    with monkeypatch.context() as changed:
        changed.setenv("TORCH_LOGS", "-dynamo")
        assert in_child(is_a_fork, CPU) is False
    monkeypatch.setattr(servers, "_forks", False)  # as with --fresh
    assert in_child(is_a_fork, CPU) is False


def find_parent() -> int:
    return os.getppid()


def test_children_are_forks_of_a_process_that_has_activated() -> None:
    """But not where they have an environment of their own, nor under the policy that is another in a fork."""
    one, other = (in_child(find_parent, CPU) for _ in range(2))
    assert one == other
    apart = (CPU.within(CUDA_VISIBLE_DEVICES="0"), CPU.with_settings(policy="accelerate"), STOCK.when("after"))
    (server,) = {in_child(find_parent, place) for place in apart}
    assert server == psutil.Process(one).ppid()


def test_a_process_that_cannot_activate_is_shown_and_is_not_kept() -> None:
    for _ in range(2):
        error = outcome(echo, CPU.with_settings(devices=-1), 1).error
        assert error is not None and "the child did not get as far as the test" in error
        assert "--devices" in error
    assert in_child(echo, CPU, 1) == 1


def test_a_child_has_what_its_process_has_imported() -> None:
    place = dataclasses.replace(STOCK.when("after"), preloaded=("this",))
    assert in_child(has_imported, place, "this") and not in_child(has_imported, STOCK.when("after"), "this")


def spawn() -> list[bool]:
    import torch

    with torch.multiprocessing.get_context("spawn").Pool(1) as pool:
        return [pool.apply(is_available), is_available()]


def test_a_child_spawns_processes_that_activate() -> None:
    assert in_child(spawn, CPU) == [True, True]


def has_imported(name: str) -> bool:
    return name in sys.modules


def test_the_state_of_a_fork_depends_on_its_file() -> None:
    """Give tests that train a server that imported the optimizer; tests of the compiler import it themselves."""
    from native import test_compile, test_training

    for module, server in ((test_training, "training children"), (test_compile, "children")):
        function = next(value for name, value in vars(module).items() if name.startswith("test_"))
        assert running._choose_server([running.Case(function)]) == server


def sleep() -> None:
    time.sleep(600)


def test_a_fork_that_hangs_is_killed_and_the_next_is_none_the_worse(tmp_path: Path) -> None:
    request = {
        "imports": [],
        "native": (),
        "settings": {},
        "setup": None,
        "cases": [("test_harness:sleep", ([], {}), 600.0)],
    }
    (tmp_path / "request").write_text(repr(request))
    done = servers.run_child(str(tmp_path), clean_environment(), 2, "children")
    assert done.killed
    assert in_child(echo, CPU, 1) == 1


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


SHOW = """
import os, sys
print(__name__, globals().get("__file__"), sys.argv, sys.path[0], sys.orig_argv[1:], sorted(globals()))
print(os.getcwd(), os.environ["TORCHDEVICE_X"], input(), file=sys.stderr)
sys.exit(3)
"""


WORDS = [("show.py", "a"), ("folder", "a"), ("-m", "show", "a"), ("-c", SHOW, "a")]


@pytest.mark.parametrize("words", WORDS, ids=lambda each: each[0])
def test_a_forked_command_resembles_a_new_one(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "show.py").write_text(SHOW)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(SHOW)
    given = {"environment": {"TORCHDEVICE_X": "1"}, "folder": tmp_path, "text": "a line\n", "check": False}
    forked = run_forked(*words, **given)
    assert forked == python(*words, **given)
    assert forked.status == 3


def test_a_command_is_forked_where_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork a command with torch imported, unless torch would read another environment or forking is off."""
    look = ("-c", "import sys; print('torch' in sys.modules)")
    assert run_forked(*look).out == "True\n"
    assert run_forked(*look, environment={"TORCH_LOGS": "-dynamo"}).out == "False\n"
    monkeypatch.setattr(servers, "_forks", False)  # as with --fresh
    assert run_forked(*look).out == "False\n"


def test_a_forked_command_that_fails_or_hangs_is_the_tests() -> None:
    with pytest.raises(pytest.fail.Exception, match="exit status 5"):
        run_forked("-c", "raise SystemExit(5)")
    with pytest.raises(pytest.fail.Exception, match="it took too long"):
        run_forked("-c", "import time; time.sleep(600)", timeout=1)
    assert run_forked("-c", "print('none the worse')").out == "none the worse\n"


def test_a_forked_command_flushes_the_files_of_c() -> None:
    assert run_forked("-c", "import ctypes; ctypes.CDLL(None).printf(b'said')").out == "said"


def test_the_outcome_of_one_function() -> None:
    assert outcome(say, STOCK).err == "on standard error\n"
