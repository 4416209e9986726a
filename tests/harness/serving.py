"""A process that has imported torch and becomes, in a fork, what a folder describes; it runs outside of the package.

``become_child`` is what ``child.py --serve`` asks for. Programs are served by

    python -c "import sys; sys.path[0] = HARNESS; import serving; serving.run_programs()"

so that their ``__main__`` is a module without contents, as it is in a new Python.

To activate, or to import the compiler, takes most of a child's time. A folder with a file ``prepared`` goes to a fork
that has done what the file says, and serves all folders whose file says the same (``Prepared``).
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import runpy
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

#: How many processes that are prepared are kept.
_KEPT = 6
#: The modules of the process that serves, which its forks do not take apart; and what the interpreter ends with.
_before: dict[str, object] = {}
_TO_THE_END = {"sys", "builtins", "__main__"}


class Prepared:
    """A fork that forks children itself, after it has activated or imported what they share."""

    #: In that fork: where it reads folders and writes answers.
    files: tuple[TextIO, TextIO] | None = None
    #: In the process that forks it: all that there are, by what they activate with.
    known: dict[str, Prepared] = {}

    def __init__(self) -> None:
        asked, asks = os.pipe()
        answers, answered = os.pipe()
        self._process = os.fork()
        if self._process:
            self._files = (os.fdopen(answers), os.fdopen(asks, "w"))
        else:
            Prepared.files = (os.fdopen(asked), os.fdopen(answered, "w"))
            asked, answered = answers, asks
        os.close(asked)
        os.close(answered)

    def serve(self, folder: Path) -> bool:
        """Pass a folder on, and say its fork's number and status; return whether the process can go on.

        If it could not prepare itself, its end is that of the folder's child.
        """
        answers, asks = self._files
        with contextlib.suppress(BrokenPipeError):
            print(folder, file=asks, flush=True)
        fork = answers.readline()
        print(int(fork or self._process), flush=True)
        status = answers.readline()
        print(int(status or self._wait()), flush=True)
        return bool(status)

    def end(self) -> None:
        """End it; it has no child at present."""
        os.kill(self._process, signal.SIGKILL)
        self._wait()
        self.close()

    def close(self) -> None:
        """Close the pipes to it."""
        _close(self._files)

    def _wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])


def fork_for_each_folder() -> Path:
    """Fork for each folder that is read, say each fork's number and status; return in the forks."""
    gc.collect(2 if Prepared.files is None else 1)
    if not _before:
        _before.update(sys.modules)
    asks, answers = Prepared.files or (sys.stdin, sys.stdout)
    for line in asks:
        folder = Path(line.removesuffix("\n"))
        if Prepared.files is None and (folder / "prepared").exists():
            if _is_served(folder):
                continue
            return folder
        fork = os.fork()
        if not fork:
            _resemble_a_new_process(folder)
            if Prepared.files is None:
                _take_from(folder)
            else:  # it has that in which the process was prepared, with what that has changed
                _close(Prepared.files)
            return folder
        print(fork, file=answers, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), file=answers, flush=True)
    os._exit(0)


def _is_served(folder: Path) -> bool:
    """Have a prepared process serve a folder; return False in one that is yet to prepare itself."""
    key, known = (folder / "prepared").read_text(encoding="utf-8"), Prepared.known
    process = known.pop(key, None)
    if process is None:
        if len(known) == _KEPT:
            known.pop(next(iter(known))).end()
        process = Prepared()
        if Prepared.files is not None:
            _resemble_a_new_process(folder)
            _take_from(folder)
            return False
    if process.serve(folder):
        known[key] = process  # the last is the most recently used
    else:
        process.close()
    return True


def _close(files: Iterable[TextIO]) -> None:
    for file in files:
        with contextlib.suppress(BrokenPipeError):
            file.close()


def _resemble_a_new_process(folder: Path) -> None:
    """Have a session of its own, the input of the folder if it has one, and print into it."""
    os.setsid()
    given = folder / "in"
    for number, name in enumerate([given if given.exists() else os.devnull, folder / "out", folder / "err"]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    for other in Prepared.known.values():
        other.close()
    Prepared.known.clear()


def _take_from(folder: Path) -> None:
    """Have the environment of the folder, and end in the way that it says."""
    if (folder / "whole").exists():
        _before.clear()
    else:
        _end_before_libraries()
    os.environ.clear()
    os.environ.update(ast.literal_eval((folder / "environment").read_text(encoding="utf-8")))
    tempfile.tempdir = None  # it is found in the environment


@atexit.register  # before torch is imported: all other functions are called before
def _leave_the_rest_alone() -> None:
    """End as Python does, but keep what was there before the fork from being taken apart, and copied for that."""
    gc.collect(1)
    gc.freeze()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_before))
    for name, module in _before.items():
        if name not in _TO_THE_END and sys.modules.get(name) is module:
            del sys.modules[name]


def _end_before_libraries() -> None:
    """Have this process end before the libraries that are loaded now take themselves apart, after those that follow.

    ``exit`` calls functions from the last one to the first.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "on_exit"):
        libc.on_exit(libc._exit, None)
        libc.on_exit(libc.fcloseall, None)


def become_child(*modules: str) -> Path:
    """Return the folder whose child this fork is to be; it has torch and more modules.

    The package's modules are there too, as where a program activates, deactivates and activates again.
    """
    for name in ("torch", "pytest", "hypothesis", *modules):
        importlib.import_module(name)
    importlib.import_module("torchdevice_cuda.translate.patches").registered()
    return fork_for_each_folder()


def end_at_once() -> None:
    """End as Python does, but leave what is in memory as it is: to take torch apart costs as much as to activate."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def run_programs() -> None:
    """Be, in each fork, the program of the command line that the folder has: a file, ``-m`` or ``-c``."""
    importlib.import_module("torch")
    folder = fork_for_each_folder()
    command = ast.literal_eval((folder / "command").read_text(encoding="utf-8"))
    os.chdir(command["folder"])
    main = sys.modules["__main__"]
    del main.sys, main.serving, sys.modules[__name__]  # type: ignore[attr-defined]
    first, *rest = command["arguments"]
    sys.orig_argv[1:] = [first, *rest]
    if first == "-m":
        sys.argv = ["-m", *rest[1:]]
        sys.path[0] = os.getcwd()
        # What the interpreter itself calls.
        runpy._run_module_as_main(rest[0])  # type: ignore[attr-defined]
        return
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path[0] = ""
        source, name = rest[0], "<string>"
    elif os.path.isdir(first):
        sys.argv = [first, *rest]
        sys.path[0] = os.path.abspath(first)
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]
        return
    else:
        sys.argv = [first, *rest]
        sys.path[0] = os.path.dirname(os.path.realpath(first))
        source, name = Path(first).read_text(encoding="utf-8"), os.path.abspath(first)
        main.__file__, main.__cached__ = name, None  # type: ignore[attr-defined]
    exec(compile(source, name, "exec", dont_inherit=True), main.__dict__)
