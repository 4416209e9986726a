"""docs/cookbook.md: each task's programs and commands, and what the page says that they print."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from harness import clean_environment, run
from harness.places import VIRTUAL, must_be_ready
from harness.processes import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.native]

PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
TASKS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
_PROGRAM = re.compile(r'^```python title="(\S+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
NEEDS = {"Test a Triton kernel": "triton"}
_PYTEST = {"PYTEST_ADDOPTS": "-p no:cacheprovider"}
_LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def test_there_are_ten() -> None:
    assert len(TASKS) == 10 and all(_CONSOLE.search(text) for text in TASKS.values())


@pytest.mark.parametrize("task", TASKS)
def test_a_task_prints_what_the_page_says(task: str, tmp_path: Path) -> None:
    if task in NEEDS and importlib.util.find_spec(NEEDS[task]) is None:
        pytest.skip(f"{NEEDS[task]} is not installed")
    must_be_ready(VIRTUAL)
    for name, text in _PROGRAM.findall(PAGE):
        (tmp_path / name).write_text(text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = clean_environment(TORCHDEVICE_DRIVER="virtual", PATH=path, PYTHONUNBUFFERED="1", **_PYTEST)
    (console,) = _CONSOLE.findall(TASKS[task])
    commands = _COMMAND.findall(console)
    assert commands
    for command, wanted in commands:
        words = ["bash", "-c", f"{command} 2>&1; true"]
        done = run(words, environment=environment, folder=tmp_path, timeout=600)
        checker = doctest.OutputChecker()
        assert checker.check_output(wanted, done.out, _LOOSE), f"{command}\n{done.out}"
