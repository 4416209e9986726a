"""Children and programs that need not import torch: forks of a process that has done so.

They, or the process that children of usual places are forks of, activate after torch is imported, which a place may
have wanted before. Tests of what comes first say so
(:meth:`ChildConfig.anew`, ``python`` instead of ``run_forked``), and with ``--fresh`` every one is a new process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from .processes import Finished, check_end, clean_environment, python, run

#: The program that a child is.
CHILD = Path(__file__).with_name("child.py")
#: In which torch is imported: before any test has changed a variable for itself.
_ENVIRONMENT = clean_environment()
#: Seconds that the process has to end.
_PATIENCE = 10.0
#: What torch does not read while it is imported.
_LATER = (
    "TORCHDEVICE_",
    "CUDA_VISIBLE_DEVICES",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT",
    "TMPDIR",
)


#: By what its forks are: how such a process is started.
_COMMANDS = {
    "children": [str(CHILD), "--serve"],
    # An optimizer's first step imports dynamo, which takes as long as torch.
    "training children": [str(CHILD), "--serve", "torch._dynamo"],
    "programs": [
        "-c",
        f"import sys; sys.path[0] = {str(CHILD.parent)!r}; import serving; serving.run_programs()",
    ],
}


class Server:
    """A process that has imported torch and forks children."""

    def __init__(self, kind: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *_COMMANDS[kind]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_ENVIRONMENT,
            start_new_session=True,
        )

    def run(self, folder: str, environment: Mapping[str, str], timeout: float) -> Finished:
        """Have a fork be what a folder describes, to its end."""
        assert self._process.stdin is not None
        Path(folder, "environment").write_text(repr(dict(environment)), encoding="utf-8")
        self._process.stdin.write(f"{folder}\n".encode())
        self._process.stdin.flush()
        child = self._answer(timeout)
        if child is None:
            # The next child has another one: this one may be in the middle of an answer.
            self._process.kill()
            _servers.clear()
            raise RuntimeError("the process that forks children has ended, or hangs")
        status = None
        try:
            status = self._answer(timeout)
        finally:
            killed = status is None
            if killed:
                # Its own children too: workers would wait for it for ever.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
                status = self._answer(timeout)
        printed = [Path(folder, name) for name in ("out", "err")]
        said = [each.read_bytes().decode(errors="replace") if each.exists() else "" for each in printed]
        return Finished(-1 if status is None else status, *said, killed)

    def end(self) -> None:
        """End it; it has no child at present."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self, timeout: float) -> int | None:
        """Return the number on its next line, if one comes in time."""
        assert self._process.stdout is not None
        end, line = time.monotonic() + timeout, b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, end - time.monotonic()))
            byte = os.read(self._process.stdout.fileno(), 1) if ready else b""
            if not byte:
                return None
            line += byte
        return int(line)


_servers: dict[str, Server] = {}
#: A fork of a process on macOS may not use its frameworks.
_forks = sys.platform != "darwin"


def always_fresh() -> None:
    """Have every child be a new process from now on."""
    global _forks
    _forks = False


def run_child(folder: str, environment: Mapping[str, str], timeout: float, fork_of: str | None) -> Finished:
    """Run the child of a folder to its end: as a fork of such a server, or a new process."""
    if fork_of:
        return _serve(fork_of).run(folder, environment, timeout)
    return run([sys.executable, str(CHILD), folder], environment=environment, timeout=timeout)


def run_forked(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    text: str = "",
    timeout: float = 180,
    check: bool = True,
    whole: bool = False,
) -> Finished:
    """Run what ``python`` runs, in a fork that has imported torch: a file, ``-m`` or ``-c``, no options of Python's.

    For programs that are not about what is imported when, nor about how Python itself starts. ``whole``: at its end
    torch is taken apart, too, as for tests of how programs end.
    """
    if not may_fork(clean_environment(**(environment or {}))):
        return python(*arguments, environment=environment, folder=folder, text=text, timeout=timeout, check=check)
    command = {"arguments": [str(one) for one in arguments], "folder": str(folder or os.getcwd())}
    with tempfile.TemporaryDirectory(prefix="program-") as described:
        Path(described, "command").write_text(repr(command), encoding="utf-8")
        Path(described, "in").write_text(text, encoding="utf-8")
        if whole:
            Path(described, "whole").touch()
        done = _serve("programs").run(described, clean_environment(**(environment or {})), timeout)
    return check_end(done, check)


def may_fork(environment: Mapping[str, str]) -> bool:
    """Return whether a fork has all variables that torch may have read at its import."""
    return _forks and _imported_with(environment) == _imported_with(_ENVIRONMENT)


def _serve(kind: str) -> Server:
    if kind not in _servers:
        _servers[kind] = Server(kind)
    return _servers[kind]


def _imported_with(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that torch may have read at its import."""
    return {key: value for key, value in environment.items() if not key.startswith(_LATER)}


def end() -> None:
    """No child is wanted any more."""
    while _servers:
        _servers.popitem()[1].end()
