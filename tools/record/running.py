"""Runs cases in child processes: those of an area in one, in their order; each that is to be alone in its own."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from record.case_sets import Case, CaseSet
from record.noting import note_operators
from record.places import Place

MAIN = Path(__file__).with_name("__main__.py")
#: The first item of an answer: the process ended before the case did, or the case raised what it does not expect.
LOST, FAILED = "ProcessDied", "CaseFailed"
Row = tuple[str, Any, float]


def is_failure(answer: Any) -> bool:
    """Tell whether a case has no answer."""
    return isinstance(answer, list) and len(answer) == 2 and answer[0] in (LOST, FAILED)


def run_cases(cases: CaseSet, names: list[str], path: Path) -> None:
    """Run one case after another in this process, and write each answer when it is known."""
    cases.say("prepare", lambda: None)()
    reset = cases.say("reset", lambda: None)
    with path.open("w") as file:
        for name in names:
            case = cases.cases[name]
            if not case.alone:
                reset()
            start = time.perf_counter()
            try:
                with warnings.catch_warnings(), note_operators():
                    warnings.simplefilter("ignore")
                    answer = json.loads(json.dumps(case.run()))
            except Exception as error:
                answer = [FAILED, f"{type(error).__name__}: {error}"[:400]]
            file.write(json.dumps([name, answer, round(time.perf_counter() - start, 2)]) + "\n")
            file.flush()


class Process(Protocol):
    """The process that runs a unit of cases."""

    def poll(self) -> int | None:
        """Return the exit status, once there is one."""

    def kill(self) -> None:
        """End it."""


Start = Callable[[list[str], Path], Process]


class Fork:
    """A child of a process that has imported torch, and not used the device."""

    def __init__(self, cases: CaseSet, names: list[str], path: Path) -> None:
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                run_cases(cases, names, path)
                status = 0
            finally:
                os._exit(status)

    def poll(self) -> int | None:
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def spawn(cases: CaseSet, place: Place) -> Start:
    """Start processes that import torch themselves: where a fork may not use the device."""

    def start(names: list[str], path: Path) -> Process:
        asked = path.with_suffix(".names")
        asked.write_text(json.dumps(names))
        command = [sys.executable, *place.launcher, str(MAIN), "child", cases.name, str(path), str(asked)]
        return subprocess.Popen(command, env=place.make_environment(), stdout=subprocess.DEVNULL)

    return start


def list_names(cases: CaseSet, place: Place) -> list[str]:
    """List the cases' names; in a child where that uses the device."""
    if not cases.say("LISTED_ON_DEVICE", False):
        return list(cases.cases)
    command = [sys.executable, *place.launcher, str(MAIN), "child", cases.name]
    done = subprocess.run(command, env=place.make_environment(), stdout=subprocess.PIPE, check=True, text=True)
    return list(json.loads(done.stdout.strip().splitlines()[-1]))


def run_at(cases: CaseSet, place: Place, names: list[str], *, jobs: int = 1, patience: float = 300.0) -> Iterator[Row]:
    """Run cases at a place; each answer as soon as its process has ended."""
    known = cases.cases if not cases.say("LISTED_ON_DEVICE", False) else {name: Case(name, len) for name in names}
    units = divide(known, names)
    is_forked = place.forks and not cases.say("IMPORTS_USE_GPU", False)
    if not is_forked or len(units) == 1:
        yield from run_units(known, units, spawn(cases, place), jobs=jobs, patience=patience)
        return
    with tempfile.TemporaryDirectory() as folder:
        path, asked = Path(folder) / "answers", Path(folder) / "names"
        asked.write_text(json.dumps(names))
        command = [sys.executable, *place.launcher, str(MAIN), "child", cases.name, str(path), str(asked)]
        command += ["--jobs", str(jobs), "--patience", str(patience)]
        server = subprocess.Popen(command, env=place.make_environment(), stdout=subprocess.DEVNULL)
        seen: set[str] = set()
        status, size = None, 0
        while status is None:
            time.sleep(0.1)
            status = server.poll()
            if measure(path) > size:
                size = measure(path)
                rows = read_rows(path)
                yield from ((name, *row) for name, row in rows.items() if name not in seen)
                seen |= rows.keys()
        if status:
            raise SystemExit(f"{place.name}: the process that runs the cases ended ({status})")


def serve(cases: CaseSet, names: list[str], path: Path, jobs: int, patience: float) -> None:
    """Run cases in forks of this process, which does not use the device."""
    cases.say("preload", lambda names: None)(names)
    gc.collect()
    gc.freeze()  # imported modules need not be looked through before every case

    def start(unit: list[str], out: Path) -> Process:
        return Fork(cases, unit, out)

    with path.open("w") as file:
        units = divide(cases.cases, names)
        for row in run_units(cases.cases, units, start, jobs=jobs, patience=patience):
            file.write(json.dumps(row) + "\n")
            file.flush()


def divide(cases: dict[str, Case], names: list[str]) -> list[list[str]]:
    """Make lists of cases that share a process; those come first, which take longest."""
    units: dict[str, list[str]] = {}
    for name in names:
        if not cases[name].alone:
            units.setdefault(cases[name].unit, []).append(name)
    return [*units.values(), *([name] for name in names if cases[name].alone)]


def measure(path: Path) -> int:
    """Return the size of a file that need not be there yet."""
    return path.stat().st_size if path.exists() else 0


def read_rows(path: Path) -> dict[str, Any]:
    """Read the answers of a file that another process has written or is writing."""
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
    return {row[0]: row[1:] for row in map(json.loads, whole.splitlines())}


def run_units(
    cases: dict[str, Case], units: list[list[str]], start: Start, *, jobs: int, patience: float
) -> Iterator[Row]:
    """Run units, and say of a case that ended its process, or took longer than ``patience`` seconds, that it did.

    The others of its unit go on in another process.
    """
    quiet = [unit for unit in units if any(cases[name].quiet for name in unit)]
    waiting = [unit for unit in units if unit not in quiet]
    busy: list[tuple[list[str], Path, Process, float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        number = 0
        while waiting or busy or quiet:
            if not waiting and not busy:
                waiting, quiet, jobs = quiet, [], 1
            while waiting and len(busy) < jobs:
                number += 1
                path = Path(folder) / str(number)
                unit = waiting.pop(0)
                busy.append((unit, path, start(unit, path), time.monotonic(), 0))
            time.sleep(0.02)
            still = []
            for unit, path, process, since, told in busy:
                status, size = process.poll(), measure(path)
                if size > told:
                    since, told = time.monotonic(), size
                if status is None and time.monotonic() - since < patience:
                    still.append((unit, path, process, since, told))
                    continue
                if status is None:
                    process.kill()
                answers = read_rows(path)
                yield from ((name, *row) for name, row in answers.items())
                rest = [name for name in unit if name not in answers]
                if rest:
                    yield rest[0], [LOST, "it took too long" if status is None else f"status {status}"], 0.0
                if rest[1:]:
                    waiting.insert(0, rest[1:])
            busy = still
