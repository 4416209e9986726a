"""Findings of this process and its children: collected in a file, counted as the process ends."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..settings import sanitizer as tools

#: Names the file for the C++ of kernels.
FILE = "TORCHDEVICE_SANITIZE_FILE"
ERROR, WARNING = "error", "warning"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One finding, as ``host_sanitizer/findings.h`` writes it."""

    tool: str
    level: str
    kernel: str
    file: str
    line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    text: str

    def __str__(self) -> str:
        """Return the line that standard error shows."""
        if not self.kernel:  # memory that was not freed
            return f"{self.file}:{self.line}: {self.text}"
        block, thread = (",".join(map(str, place)) for place in (self.block, self.thread))
        return f"{self.file}:{self.line}: kernel {self.kernel}: block: [{block}], thread: [{thread}] {self.text}"


class _Collection:
    """The file of this process, and how far it was read."""

    def __init__(self) -> None:
        self.path: Path | None = None
        self.found: list[Finding] = []
        #: libraries whose kernels were compiled without checks, as the C++ of these writes them
        self._unchecked: list[str] = []
        #: how much of the file was read, and of the findings taken
        self._read = self._taken = 0
        self._process = 0
        self._before: dict[str, str | None] = {}
        self._is_registered = False

    def start(self, setting: str) -> None:
        """Name the tools and the file for the C++ of kernels; the file is the parent's, if it has one."""
        if os.environ.get(FILE) and self.path is None:
            os.environ[tools.VARIABLE] = tools.write(setting)
            return
        if self.path is None:
            file, path = tempfile.mkstemp(prefix="torchdevice-findings-", suffix=".jsonl")
            os.close(file)
            self.path, self._process, self._read = Path(path), os.getpid(), 0
            self._before = {name: os.environ.get(name) for name in (FILE, tools.VARIABLE)}
        os.environ[FILE] = str(self.path)
        os.environ[tools.VARIABLE] = tools.write(setting)
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self._end)

    def stop(self) -> None:
        """Restore the environment and remove the file."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before = {}
        if self.path is not None and self._process == os.getpid():
            self.path.unlink(missing_ok=True)
        self.path = None

    def add(self, finding: Finding) -> None:
        """Add a finding of Python code: a line on standard error, and one of the file."""
        print(finding, file=sys.stderr, flush=True)
        with open(os.environ[FILE], "a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(finding)) + "\n")

    def describe(self) -> list[dict[str, Any]]:
        """Return the findings so far, as fields of a report's."""
        self._read_new()
        return [
            {"tool": one.tool, "level": one.level, "kernel": one.kernel, "text": str(one), "site": (one.file, one.line),
             "other": None}
            for one in self.found
        ]  # fmt: skip

    def take(self) -> list[Finding]:
        """Return the findings since the last call, whose errors do not change the status of the process then."""
        self._read_new()
        new, self._taken = self.found[self._taken :], len(self.found)
        return new

    def take_unchecked(self) -> list[str]:
        """Return the libraries whose kernels are not checked, since the last call."""
        self._read_new()
        new, self._unchecked = self._unchecked, []
        return new

    def _read_new(self) -> None:
        if self.path is None or self._process != os.getpid():  # a forked child has its parent's
            return
        with self.path.open(encoding="utf-8", errors="replace") as file:
            file.seek(self._read)
            lines = file.readlines()
            self._read = file.tell()
        read = [json.loads(line) for line in lines]
        self._unchecked += [data["unchecked"] for data in read if "unchecked" in data]
        self.found += [_read_finding(data) for data in read if "unchecked" not in data]

    def _end(self) -> None:
        """Count the findings; with errors, the process ends with a status that says so."""
        if self.path is None or self._process != os.getpid():
            return
        left = self.take()
        if self.found:
            errors = sum(finding.level == ERROR for finding in self.found)
            warnings = len(self.found) - errors
            print(
                f"torchdevice_cuda: --sanitize found {_count(errors, 'error')} and {_count(warnings, 'warning')}",
                file=sys.stderr,
            )
        if any(finding.level == ERROR for finding in left):
            _fail()
        self.stop()


def _read_finding(data: dict[str, Any]) -> Finding:
    return Finding(**{**data, "block": tuple(data["block"]), "thread": tuple(data["thread"])})


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _fail() -> None:
    """Let the process end with status 1, once everything else at its end is done; Python has no call for that."""
    library = ctypes.CDLL(None)
    at_exit = library.__cxa_atexit
    at_exit.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    for function, argument in ((library._exit, 1), (library.fflush, None)):  # called in the reverse order
        at_exit(ctypes.cast(function, ctypes.c_void_p), argument, None)


_collection = _Collection()
start, stop, add = _collection.start, _collection.stop, _collection.add
take, describe, take_unchecked = _collection.take, _collection.describe, _collection.take_unchecked
