"""A session on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torchdevice_cuda

from .running import OURS, environment, write


def session(lines: Sequence[str], folder: Path, *words: str, **variables: str) -> tuple[int, str]:
    """Type into a session on a terminal, line by line; its exit status and everything the terminal showed."""
    ours, theirs = pty.openpty()
    env = environment(TERM="dumb", HOME=str(folder), **variables)
    command = [sys.executable, *words]
    with subprocess.Popen(command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        shown = b""
        for line in lines:
            shown += read_until(ours, b">>> ")
            os.write(ours, line.encode())
        shown += read_until(ours, None)
        status = child.wait(timeout=60)
    os.close(ours)
    return status, shown.decode().replace("\r\n", "\n")


def read_until(terminal: int, mark: bytes | None) -> bytes:
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            block = os.read(terminal, 4096)
        except OSError:  # how Linux says that the other end is closed
            return shown
        shown += block
        if not block or (mark is not None and mark in shown):
            return shown
    raise TimeoutError(shown)


def test_session(tmp_path: Path) -> None:
    write(tmp_path / "startup.py", "started = 'by the startup file'")
    lines = [
        "import sys; sys.argv, sys.path[0], sys.ps1, __name__, '__file__' in globals()\n",
        "started\n",
        "'completes', 'rlcompleter' in sys.modules\n",
        "1 / 0\n",
        "sys.exit(6)\n",
    ]
    status, shown = session(lines, tmp_path, *OURS, PYTHONSTARTUP=str(tmp_path / "startup.py"))
    assert status == 6
    assert f"Python {sys.version}" in shown.replace("\n\n", "\n")
    assert f"torchdevice-cuda {torchdevice_cuda.__version__}" in shown
    assert "([''], '', '>>> ', '__main__', False)" in shown
    assert "'by the startup file'" in shown
    assert "('completes', True)" in shown
    assert 'Traceback (most recent call last):\n  File "<stdin>", line 1, in <module>\n' in shown
    assert "torchdevice_cuda/" not in shown


def test_session_ends_with_the_input(tmp_path: Path) -> None:
    status, shown = session(["x = 5\n", "x * 2\n", "\x04"], tmp_path, "-q", *OURS, "-", "a")
    assert status == 0
    assert "\n10\n" in shown
    assert "Python" not in shown
