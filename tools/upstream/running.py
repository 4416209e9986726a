"""Run the tests of a file in one process after another, so that a crash or a hang ends one test."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from .upstream_recorder import RECORD

ROOT = Path(__file__).resolve().parents[2]
#: Memory that does not depend on the machine; two halves of it do not fit, as on a GPU, where a context takes some.
_MEMORY = {"TORCHDEVICE_MEMORY": "8194MiB"}
#: The environment of a driver. ``gpu`` is a real one: torch runs as it is.
DRIVERS: dict[str, dict[str, str]] = {
    "virtual": _MEMORY,
    "mps": {"TORCHDEVICE_EMULATE_MPS": "1"},
    "cpu": _MEMORY,
    "gpu": {},
}
STARTING = 600  # seconds: a file of tests may make thousands of them when it is imported

#: Ended with this one, however it ends.
running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


@contextlib.contextmanager
def ending_all() -> Iterator[None]:
    """End what is still running when the block is left, and start nothing more meanwhile."""
    _ending.clear()
    try:
        yield
    finally:
        _ending.set()
        for process in list(running):
            end(process)


class UnreadableSuiteError(Exception):
    """pytest finds no tests in a file."""


@dataclasses.dataclass
class Run:
    """A file of tests under a driver, in one process after the other."""

    source: Path
    suite: str
    driver: str
    limit: float  # seconds for one test
    settings: Sequence[str] = ()  # options of torchdevice_cuda

    def _begin(self, arguments: Sequence[str], record: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        paths = [str(ROOT), str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH")]
        # A GPU that is named has its own memory.
        named = any(setting.startswith("--gpu=") for setting in self.settings)
        environment = {
            **os.environ,
            **{name: value for name, value in DRIVERS[self.driver].items() if not (named and name in _MEMORY)},
            RECORD: str(record),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        us = [] if self.driver == "gpu" else ["-m", "torchdevice_cuda", "--driver", self.driver, *self.settings]
        line = [sys.executable, *us, "-m", "pytest", "-q", "--tb=short", "-p", "upstream_recorder"]
        # PyTorch's conftest.py is for older releases of pytest, and adds nothing that its tests need.
        line += ["--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", *arguments]
        process = subprocess.Popen(
            line, cwd=self.source / "test", env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        running.add(process)
        return process

    def tests(self, words: str | None) -> list[str]:
        """Return the tests of the file; those that pytest's ``-k`` leaves of them."""
        with tempfile.TemporaryDirectory() as folder:
            record, log = Path(folder, "record"), Path(folder, "log")
            with log.open("wb") as output:
                chosen = ["-k", words] if words else []
                process = self._begin(["--collect-only", self.suite, *chosen], record, output)
                try:
                    process.wait(STARTING)
                finally:
                    end(process)
            for line in read_lines(record):
                return list(line["tests"])
            raise UnreadableSuiteError(f"it cannot be read:\n{log.read_text(errors='replace')[-2000:]}")

    def results(self, tests: Sequence[str], log: IO[bytes]) -> Iterator[dict[str, Any]]:
        """Run the tests and yield each outcome."""
        left = collections.deque(tests)
        while left and not _ending.is_set():
            before = len(left)
            with tempfile.TemporaryDirectory() as folder:
                record, names = Path(folder, "record"), Path(folder, "tests")
                record.touch()
                names.write_text("\n".join(left))
                process = self._begin([f"@{names}"], record, log)
                try:
                    for result in self._watch(process, record):
                        left.remove(result["test"])
                        yield result
                finally:
                    end(process)
            if len(left) == before and not _ending.is_set():  # it did not come as far as a test
                yield {"test": left.popleft(), "outcome": "crashed", "words": f"exit status {process.returncode}"}

    def _watch(self, process: subprocess.Popen[bytes], record: Path) -> Iterator[dict[str, Any]]:
        read, underway, since = 0, None, time.monotonic()
        while True:
            ended = process.poll() is not None
            lines = list(read_lines(record))
            for line in lines[read:]:
                since = time.monotonic()
                underway = line["test"] if line["event"] == "began" else None
                if line["event"] == "over":
                    yield {name: line[name] for name in ("test", "outcome", "words")}
            read = len(lines)
            if ended:
                if underway and not _ending.is_set():
                    yield {"test": underway, "outcome": "crashed", "words": _describe_status(process.returncode)}
                return
            if time.monotonic() - since > (self.limit if underway else STARTING):
                if underway:
                    yield {"test": underway, "outcome": "hangs", "words": f"after {self.limit:.0f} s"}
                return
            time.sleep(0.1)


def _describe_status(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    running.discard(process)


def read_lines(record: Path) -> Iterator[dict[str, Any]]:
    """Return the written lines: a process that is ended may leave half a line."""
    for line in record.read_text().splitlines(keepends=True) if record.exists() else ():
        if line.endswith("\n"):
            yield json.loads(line)


def read_latest(results: Path) -> list[dict[str, Any]]:
    """Return the last outcome of each test."""
    return list({line["test"]: line for line in read_lines(results)}.values())
