"""Commands in child processes, in an environment that holds nothing of the testing process's own settings."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

import pytest

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
#: Settings of the process that runs the tests must not leak into the programs under test: ours, and Python's.
_SETTINGS = ("TORCHDEVICE_", "TORCH_ALLOW_REDIRECTS", "CUDA_VISIBLE_DEVICES", "PYTHON")
_KEPT = ("TORCHDEVICE_CACHE_DIR", "TORCHDEVICE_NATIVE_CXXFLAGS", "PYTHONPATH")
#: Two children run at once on few cores, and what they compute is small.
_DEFAULTS = {"OMP_NUM_THREADS": "1"}
#: What pytest and torch write into the environment of their own process: children are programs, which write theirs.
WRITTEN = {"PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR"} - os.environ.keys()


@dataclasses.dataclass(frozen=True)
class Finished:
    """A child that has ended: its exit status, what it printed, and whether it had to be killed."""

    status: int
    out: str
    err: str
    killed: bool = False

    def __str__(self) -> str:
        how = "killed: it took too long" if self.killed else f"exit status {self.status}"
        parts = [f"{title}:\n{text[-8000:]}" for title, text in (("output", self.out), ("errors", self.err)) if text]
        return "\n".join([how, *parts])


def clean_environment(**extra: str) -> dict[str, str]:
    """Return the environment of a child: what is not a setting, and ``extra``."""
    kept = {key: value for key, value in os.environ.items() if key in _KEPT or not key.startswith(_SETTINGS)}
    # Children run from compiled files, as an installation does: some images forbid to write any, and then each of them
    # compiles the whole package anew.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in WRITTEN:
        kept.pop(name, None)
    path = os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")]))
    return {**_DEFAULTS, **kept, "PYTHONPATH": path, **extra}


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    text: str = "",
    timeout: float = 180,
) -> Finished:
    """Run a command to its end; ``environment`` is the whole of it (the clean one by default), ``text`` its input.

    It prints into files: a pipe would stay open as long as a child of its own lives.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            env=dict(clean_environment() if environment is None else environment),
            cwd=folder,
            start_new_session=True,
        )
        killed = False
        try:
            process.communicate(text.encode(), timeout)
        except subprocess.TimeoutExpired:
            killed = True
        finally:
            if process.poll() is None:
                # Its own children too: workers would wait for it for ever.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return Finished(process.returncode, _whole(out), _whole(err), killed)


def _whole(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def python(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    text: str = "",
    timeout: float = 180,
    check: bool = True,
) -> Finished:
    """Run this Python with a command line; ``environment`` is added to the clean one. Its failure is the test's."""
    done = run(
        [sys.executable, *map(str, arguments)],
        environment=clean_environment(**(environment or {})),
        folder=folder,
        text=text,
        timeout=timeout,
    )
    return check_end(done, check)


def check_end(done: Finished, check: bool) -> Finished:
    """Fail the test where a command hung, or failed and was not to."""
    if done.killed or (check and done.status):
        pytest.fail(str(done), pytrace=False)
    return done
