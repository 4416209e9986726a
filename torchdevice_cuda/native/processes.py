"""Run compilers, none of which outlives the build: not if it fails, is interrupted, or is killed."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from . import toolchain
from .toolchain import BuildError

# A compiler starts other processes, and no system ends those with it. So a shell runs each compiler in its own process
# group, where a second process waits for the end of a pipe that only the builder holds open. It kills the group when
# the builder is gone, for whatever reason.
_GUARDED = """
exec 3<&0 </dev/null
{ read -r nothing <&3; kill -s KILL 0; } >/dev/null 2>&1 &
guard=$!
exec 3<&-
"$@"
status=$?
{ kill "$guard"; wait "$guard"; } 2>/dev/null
exit "$status"
"""
_SHELL = "/bin/sh"
_SHELL_SIGNALLED = 128  # a shell's status for a program that a signal ended, plus the signal
_KEPT_BYTES = 1 << 20  # of one compiler's output
_SHOWN = 300
_LOOK_S = 0.5
#: Texts that compilers and linkers print only for errors.
_ERROR = re.compile(r"\berror:|undefined (reference|symbol)|multiple definition of|cannot find -l", re.IGNORECASE)


class BuildInterrupted(KeyboardInterrupt):
    """The user interrupted a build; the message says so in one line."""

    def __init__(self) -> None:
        super().__init__(
            "interrupted while the native device was being built; nothing of it is left, and the next run builds it"
        )

    def _render_traceback_(self) -> list[str]:
        """Show one line in IPython, which calls this."""
        return [f"KeyboardInterrupt: {self}"]


@contextlib.contextmanager
def reporting_interruption() -> Iterator[None]:
    """Raise BuildInterrupted if the user interrupts the build in here."""
    try:
        yield
    except KeyboardInterrupt:
        raise BuildInterrupted from None


class Compilers:
    """The compilers of one build. Used from several threads, which import nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started: list[subprocess.Popen[bytes]] = []
        self._stopped = False
        self._said: list[str] = []

    def run(self, command: list[str], what: str, made: Path) -> None:
        """Run a compiler that creates a file; raise BuildError if it does not."""
        with self._start(command) as process:
            try:
                said = _listen(process)
            except TimeoutError as error:
                os.killpg(process.pid, signal.SIGKILL)
                waited = f"{toolchain.PATIENCE_S / 60:.0f} minutes"
                raise BuildError(
                    f"{what} failed: {command[0]} did not end in {waited}; set CXX to another compiler"
                ) from error
        status = process.returncode
        self._said.append(f"$ {shlex.join(command)}\n{said}")
        if status:
            raise BuildError(f"{what} failed ({command[0]} {_ending(status)}){_reason(said)}")
        if not made.is_file() or not made.stat().st_size:
            raise BuildError(
                f"{what} failed: {command[0]} reported success and made nothing; "
                f"set CXX to another compiler{_reason(said)}"
            )

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise BuildError("the build was ended")
            try:
                process = subprocess.Popen(
                    [_SHELL, "-c", _GUARDED, "sh", *command],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise BuildError(f"{command[0]} cannot be started: {error}; set CXX to a C++ compiler") from error
            self._started.append(process)
        return process

    def stop(self) -> None:
        """End running compilers, with all processes that they started, and start no others."""
        with self._lock:
            self._stopped = True
            for process in self._started:
                if process.stdin is not None:
                    process.stdin.close()

    @contextlib.contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """End the compilers if an error or an interrupt occurs in here."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def log(self) -> str:
        """Return the commands and their output."""
        return "".join(self._said)


def _listen(process: subprocess.Popen[bytes]) -> str:
    """Return the end of a compiler's output, after it has ended. The disk, which may be full, is not used."""
    said, end = b"", time.monotonic() + toolchain.PATIENCE_S
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        # A process that it left running may hold the pipe open.
        while process.poll() is None or selector.select(0):
            if time.monotonic() > end:
                raise TimeoutError
            if selector.select(_LOOK_S):
                heard = os.read(process.stdout.fileno(), 1 << 16)
                if not heard:
                    break
                said = (said + heard)[-_KEPT_BYTES:]
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    return said.decode(errors="replace")


def _ending(status: int) -> str:
    number = -status if status < 0 else status - _SHELL_SIGNALLED
    name = signal.strsignal(number) if 0 < number < signal.NSIG else None
    return f"returned {status}" if name is None else f"was ended by signal {number}, {name}"


def _reason(said: str) -> str:
    """Return the first line with an error, because later ones are often its consequences; the last line if none."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = next((line for line in lines if _ERROR.search(line)), lines[-1] if lines else "")
    return f": {telling[:_SHOWN]}" if telling else ""
