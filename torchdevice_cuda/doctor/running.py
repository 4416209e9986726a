"""Run checks, each in its own process with a time limit; several at a time if none of them measures times.

A process that hangs is ended with all processes that it started. After a hang or crash, the check is restarted after
the question that it was at, so that one question does not cost the others.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .asking import STACK
from .results import FAILED, SKIPPED, Answer, Result
from .table import Check

#: A check with this many faults is not restarted. A hang counts more than a crash: the user waits for it.
_FAULTS, _CRASH, _HANG = 5, 1, 3
#: For a whole check, with all its restarts and questions.
_WHOLE_S = 300.0
#: For importing torch, before the first question.
_STARTING_S = 90.0
#: After its limit a process writes its stack, and is then ended. A process that cannot be ended is abandoned.
_WRITING_S, _ENDING_S = 1.5, 5.0
_LOOK_S = 0.05
_OUTPUT = 1 << 18
_OURS = "torchdevice_cuda"


class Process:
    """A running check."""

    def __init__(self, check: Check, environment: Mapping[str, str], folder: Path, limit: float | None = None) -> None:
        self.check, self.result = check, Result(check.name, check.why)
        # Its output before a crash is needed.
        self._environment, self._folder = {**environment, "PYTHONUNBUFFERED": "1"}, folder
        self._limit = check.limit if limit is None else limit
        self._whole = max(_WHOLE_S, self._limit)
        self._questions: list[str] = []
        self._started, self._faults = time.monotonic(), 0
        self._answers = folder / "answers"
        self._said = open(folder / "output", "wb")  # noqa: SIM115 (closed when the check has ended)
        self._begin()

    def _begin(self) -> None:
        """Start it with the questions that have not run."""
        words = [str(self._answers), str(self._limit), *(answer.question for answer in self.result.answers)]
        through = [] if self.check.bare else ["-m", _OURS]
        self._asking, self._read, self._ended = "", 0, False
        self._answers.unlink(missing_ok=True)
        self._stacked = len(_end_of(self._stack()))
        self._process = subprocess.Popen(
            [sys.executable, *through, "-m", self.check.program, *words],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd=self._folder,
            start_new_session=True,
        )
        self._since, self._patience = time.monotonic(), max(_STARTING_S, self._limit)

    # ------------------------------------------------------------------ looking
    def look(self) -> bool:
        """Update its state; return whether it has ended."""
        status = self._process.poll()
        self._listen()
        now = time.monotonic()
        if status is None and now - self._since < self._patience + _WRITING_S and now - self._started < self._whole:
            return False
        self.kill()
        if status is None:
            self._fault(_HANG, f"no answer within {min(self._patience, now - self._since):.0f} s{self._place()}")
        elif not self._ended or status:
            self._fault(_CRASH, f"the process ended: {_ending(status)}{self._place() or self._last_words()}")
        if self._resumes() and now - self._started < self._whole:
            self._begin()
            return False
        self._conclude()
        return True

    def _listen(self) -> None:
        """Read new answers."""
        with contextlib.suppress(FileNotFoundError), open(self._answers, "rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                self._hear(json.loads(line))

    def _hear(self, line: dict[str, Any]) -> None:
        self._since, self._patience = time.monotonic(), self._limit
        if "questions" in line:
            self._questions = line["questions"]
        elif "asked" in line:
            self._asking = line["asked"]
        elif "answer" in line:
            self._asking = ""
            self.result.answers.append(Answer(**line["answer"]))
        else:
            self._ended = True

    def _fault(self, cost: int, words: str) -> None:
        self._faults += cost
        moment = "at its end" if self._ended else "between questions" if self._read else "before the first question"
        self.result.answers.append(Answer(self._asking or moment, FAILED, time.monotonic() - self._since, words))

    def _resumes(self) -> bool:
        """Return whether another process should continue; without a question underway it would get no further."""
        return self.check.resumes and bool(self._asking) and self._faults < _FAULTS

    # ------------------------------------------------------------------- ending
    def kill(self) -> None:
        """End it with all processes that it started, even if it has ended itself and left some of them."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)

    def stop(self) -> None:
        """End it early; its answers are kept."""
        self._listen()
        self.kill()
        self._conclude()
        if self.result.verdict != FAILED:
            self.result.verdict, self.result.found = SKIPPED, f"interrupted after {len(self.result.answers)} answers"

    def _conclude(self) -> None:
        self._said.close()
        asked = {answer.question for answer in self.result.answers}
        left = [name for name in self._questions if name not in asked]
        self.result.answers += [Answer(name, SKIPPED, found="not reached") for name in left]
        self.result.output = _end_of(self._folder / "output")
        self.result.stack = _end_of(self._stack())
        self.result.conclude(time.monotonic() - self._started)

    def _stack(self) -> Path:
        return Path(f"{self._answers}{STACK}")

    def _place(self) -> str:
        """Return the innermost line of Python that it was at, from its own stack output."""
        lines = _end_of(self._stack())[self._stacked :].split("most recent call first")[-1].splitlines()
        at = next((line.strip() for line in lines if line.strip().startswith("File ")), "")
        return f", at {at}" if at else ""

    def _last_words(self) -> str:
        lines = [line.strip() for line in _end_of(self._folder / "output").splitlines() if line.strip()]
        return f": {lines[-1]}" if lines else ""


def _end_of(path: Path) -> str:
    try:
        return path.read_bytes()[-_OUTPUT:].decode(errors="replace")
    except FileNotFoundError:
        return ""


def _ending(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    with contextlib.suppress(ValueError):
        return f"signal {-status} ({signal.strsignal(-status)})"
    return f"signal {-status}"


def run(starts: Sequence[Callable[[], Process]], together: int) -> Generator[tuple[str, list[str]], None, None]:
    """Start checks, `together` at a time; yield at each poll the name of an ended one, if any, and of running ones.

    Checks that run when the generator is closed are ended.
    """
    begun: list[Process] = []
    left = list(starts)
    try:
        while left or begun:
            while left and len(begun) < together:
                begun.append(left.pop(0)())
            yield "", [one.check.name for one in begun]
            time.sleep(_LOOK_S)
            for process in [one for one in begun if one.look()]:
                begun.remove(process)
                yield process.check.name, [one.check.name for one in begun]
    finally:
        for process in begun:
            process.stop()
