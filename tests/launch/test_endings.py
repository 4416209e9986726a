"""A program ends as under plain python: its status, its words, its traceback. The programs are in ``endings/``."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .running import OURS, alike, copy, environment, write

PROGRAMS = {path.stem: path.read_text() for path in sorted(Path(__file__).with_name("endings").glob("*.py"))}
#: What python cannot even read.
UNREADABLE = {"syntax": "print('before')\ndef broken(:\n", "indentation": "if True:\nprint(1)\n"}
ENDINGS = {**PROGRAMS, **UNREADABLE}


@pytest.mark.parametrize("ending", ENDINGS)
def test_of_a_script(tmp_path: Path, ending: str) -> None:
    write(tmp_path / "program.py", ENDINGS[ending])
    alike("program.py", folder=tmp_path)


@pytest.mark.parametrize("ending", ["error", "exit_text", "interrupted", "syntax", "own_hook"])
@pytest.mark.parametrize("form", ["-m", "-c", "-", "folder"])
def test_of_other_forms(tmp_path: Path, ending: str, form: str) -> None:
    text = ENDINGS[ending]
    write(tmp_path / "program.py", text)
    write(tmp_path / "folder/__main__.py", text)
    words = {"-m": ["-m", "program"], "-c": ["-c", text], "-": ["-"], "folder": ["folder"]}[form]
    alike(*words, folder=tmp_path, text=text)


def _heed_interrupts() -> None:
    """Restore SIGINT: processes that a shell starts in the background ignore it, and so do their children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _interrupted(folder: Path, *prefix: str) -> tuple[str, str, int]:
    """Interrupt a program while it sleeps; return its output, its errors and its status."""
    with subprocess.Popen(
        [sys.executable, *prefix, copy("sleep.py", folder)],
        cwd=folder,
        env=environment(),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_heed_interrupts,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)  # until it is asleep: the traceback shows the line
        child.send_signal(signal.SIGINT)
        return (*child.communicate(timeout=60), child.returncode)


def test_of_a_script_that_is_interrupted(tmp_path: Path) -> None:
    plain = _interrupted(tmp_path)
    assert plain[2] == -signal.SIGINT
    assert _interrupted(tmp_path, *OURS) == plain
