"""A process that has imported torch and pytest, and becomes whatever program it is asked to be, in a fork.

    python forking.py SOCKET

Importing torch takes two seconds of processor time and activation a third of one: in a fork, a file of tests costs what
its tests cost. The package itself is not imported here: each fork imports it anew, changed or not. What it cannot show
is what happens when the package is activated before torch is imported; programs that tests start otherwise do.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Request = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Finished:
    """A program that has ended: its status, what it said, whether it was killed, and how long it took."""

    status: int
    said: str
    killed: bool
    seconds: float


class Server:
    """The process, for a tree of the package and its tests."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._folder = tempfile.TemporaryDirectory(prefix="forking-")
        self._address = str(Path(self._folder.name, "socket"))

    def __enter__(self) -> Server:
        unwanted = ("COVERAGE_PROCESS_START", "PYTHONDONTWRITEBYTECODE")
        kept = {key: value for key, value in os.environ.items() if key not in unwanted}
        self._environment = {"OMP_NUM_THREADS": "1", **kept, "PYTHONPATH": str(self._tree)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, self._address],
            env=self._environment,
            cwd=self._tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            raise SystemExit("a process that has torch and pytest did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def pytest(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None, seconds: float = 1800
    ) -> Finished:
        """Run pytest with some arguments, in the tree."""
        options = [
            "-n",
            "0",
            "--no-header",
            "--disable-warnings",
            "--tb=line",
            "-p",
            "no:cacheprovider",
            "-p",
            "children",
        ]
        started = time.monotonic()
        with tempfile.NamedTemporaryFile() as out:
            request = {
                "arguments": ["pytest", *options, *arguments],
                "environment": {**self._environment, **(environment or {}), "FORKING": self._address},
                "folder": str(self._tree),
                "out": out.name,
                "err": out.name,
                "seconds": seconds,
            }
            found = ask(self._address, request)
            said = Path(out.name).read_text("utf-8", errors="replace")
        return Finished(found["status"], said, found["killed"], time.monotonic() - started)


def ask(address: str, request: Request) -> Request:
    """Have a program run to its end, and say how it ended: its status, and whether it had to be killed."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        connection.sendall(json.dumps(request).encode() + b"\n")
        with connection.makefile("rb") as answers:
            found: Request = json.loads(answers.readline())
            return found


def become(request: Request) -> None:
    """In a fork: be the program that is asked for."""
    os.setsid()
    for number, name in ((0, os.devnull), (1, request["out"]), (2, request["err"])):
        opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    if "COVERAGE_PROCESS_START" in os.environ:
        import coverage

        coverage.process_startup()
    sys.argv = request["arguments"]
    if sys.argv[0] == "pytest":
        import pytest

        sys.exit(pytest.main(sys.argv[1:]))
    # As Python does for a script: its folder comes first.
    sys.path.insert(0, os.path.dirname(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")


def attend(program: int, seconds: float) -> Request:
    """Wait for a fork that has become a program, and kill it with its children when its time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(program, os.WNOHANG)
        if found:
            return {"status": os.waitstatus_to_exitcode(status), "killed": False}
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program, signal.SIGKILL)
    return {"status": os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]), "killed": True}


def serve(address: str) -> Request:
    """Answer requests for ever; returns in forks, with what they shall become."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those who attend are not waited for
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(16)
    print("ready", flush=True)
    while True:
        # Whoever started it holds the other end, and may be killed.
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            sys.exit()
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        with connection.makefile("rb") as questions:
            request: Request = json.loads(questions.readline())
        program = os.fork()
        if not program:
            connection.close()
            return request
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(json.dumps(attend(program, request["seconds"])).encode() + b"\n")
        os._exit(0)


if __name__ == "__main__":
    import hypothesis  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import torch  # noqa: F401

    become(serve(sys.argv[1]))
