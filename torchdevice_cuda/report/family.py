"""The processes of one program: each passes its part of the report to the first, which writes one report of all.

The first process names a folder in the environment. A child leaves a note there when it begins, and its part when it
ends; a child that is killed leaves only the note, and the report says so. No folder is created unless a child starts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from .. import leftovers, trust
from .builds import build_time
from .document import Document, Process, from_json, merged

_FOLDER = "_TORCHDEVICE_REPORT_PARTS"
_BETWEEN = "\t"
_PREFIX = "torchdevice-report-"
_BEGUN, _PART = ".begun", ".json"


class ProcessTree:
    """This process in the tree whose report goes to ``named``; a child with another path starts its own tree."""

    def __init__(self, named: str) -> None:
        self._owner = os.getpid()
        self._before = os.environ.get(_FOLDER)
        self._folder, _, place = (self._before or "").partition(_BETWEEN)
        #: Whether this process named the folder.
        self._first = not self._folder or place != named
        if self._first:
            self._folder = os.path.join(tempfile.gettempdir(), _name_folder(self._owner))
            _remove_abandoned(tempfile.gettempdir())
            os.environ[_FOLDER] = f"{self._folder}{_BETWEEN}{named}"
        self._parts: list[Document] = []
        self._silent: dict[str, Process] = {}
        self._note: str | None = None

    def is_first(self) -> bool:
        """Return whether this process is the one that writes the report."""
        return self._first and os.getpid() == self._owner

    def begin(self, process: Process) -> None:
        """Leave a note that a child has begun."""
        if self._note is not None or not self._is_awaited():
            return
        name = os.path.join(self._folder, f"{os.getpid()}-{time.time_ns()}")
        with contextlib.suppress(OSError):
            self._put(name + _BEGUN, json.dumps(dataclasses.asdict(process)))
            self._note = name

    def forked(self) -> None:
        """Reset in a forked child: it has left no note yet."""
        self._note = None
        self._parts = []

    def hand_in(self, document: Document) -> bool:
        """Leave this child's part; return false if the first process no longer waits for it."""
        if not self._is_awaited():
            return False
        self.begin(document.processes[0])
        if self._note is None:
            return False
        try:
            if not document.is_empty():
                self._put(self._note + _PART, document.to_json())
            os.unlink(self._note + _BEGUN)
        except OSError:
            return False
        return True

    def gathered(self, own: Document) -> Document:
        """Return the first process's report with those of all others, and a note on those that left none."""
        self._collect(own.processes[0].started)
        silent = tuple(self._silent.values())
        whole = merged(own, self._parts)
        return dataclasses.replace(whole, processes=(*whole.processes, *silent)) if silent else whole

    def end(self) -> None:
        """Stop waiting for children."""
        if not self.is_first():
            return
        if self._before is None:
            os.environ.pop(_FOLDER, None)
        else:
            os.environ[_FOLDER] = self._before

    def _collect(self, since: float) -> None:
        folder = Path(self._folder)
        try:
            with trust.open_folder(folder, folder, private=True) as directory:
                names = sorted(os.listdir(directory))
        except OSError:
            return
        self._silent = {}
        for name in names:
            try:
                text = trust.read(folder / name, folder).decode()
                if name.endswith(_PART):
                    self._parts.append(build_time.shift(from_json(text), since))
                elif name.endswith(_BEGUN):
                    process = Process(**json.loads(text))
                    state = "running" if _is_alive(process.pid) else "lost"
                    self._silent[name] = dataclasses.replace(process, state=state)
            except (OSError, ValueError, TypeError):
                continue  # a damaged file, or another user's
        shutil.rmtree(self._folder, ignore_errors=True)

    def _put(self, path: str, text: str) -> None:
        """Write a file that appears whole, in the folder of the parts."""
        folder = Path(self._folder)
        with trust.open_folder(folder, folder, create=0o700, private=True):
            trust.write(Path(path), text.encode(), folder, 0o600)

    def _is_awaited(self) -> bool:
        """Return whether the first process is alive."""
        return _has_living_owner(os.path.basename(self._folder))


def _name_folder(pid: int) -> str:
    """Name the folder by the process that waits for the parts.

    A lock cannot identify it: the first child creates the folder, and without children there is none.
    """
    return f"{_PREFIX}{pid}-{leftovers.identity(pid)}-{leftovers.process_namespace()}-{secrets.token_hex(8)}"


def _has_living_owner(name: str) -> bool:
    pid, _, rest = name.removeprefix(_PREFIX).partition("-")
    return pid.isdecimal() and str(leftovers.identity(int(pid))) == rest.partition("-")[0]


def _remove_abandoned(folder: str) -> None:
    """Remove folders that killed processes of this container left; those of other containers may be in use."""
    here = f"-{leftovers.process_namespace()}-"
    leftovers.remove(folder, _PREFIX, is_alive=lambda name: here not in name or _has_living_owner(name))


def _is_alive(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def wait_for_children() -> None:
    """Make multiprocessing end its children now, as it does at the end of every process: their parts are needed."""
    running = sys.modules.get("multiprocessing.util")
    if running is not None:
        running._exit_function()
