"""A process that has imported torch and becomes, in a fork, what a folder describes; it runs outside of the package.

``become_child`` is what ``child.py --serve`` asks for. Programs are served by

    python -c "import sys; sys.path[0] = HARNESS; import serving; serving.run_programs()"

so that their ``__main__`` is a module without contents, as it is in a new Python.
"""

from __future__ import annotations

import ast
import atexit
import gc
import importlib
import os
import runpy
import sys
import tempfile
import threading
from pathlib import Path


def fork_for_each_folder() -> Path:
    """Fork for each folder on standard input, say each fork's number and status; return in the forks."""
    gc.collect()
    for line in sys.stdin:
        folder = Path(line.removesuffix("\n"))
        fork = os.fork()
        if not fork:
            _resemble_a_new_process(folder)
            return folder
        print(fork, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)
    os._exit(0)


def _resemble_a_new_process(folder: Path) -> None:
    """Have a session of its own, the environment of the folder, its input if it has one, and print into it."""
    os.setsid()
    given = folder / "in"
    for number, name in enumerate([given if given.exists() else os.devnull, folder / "out", folder / "err"]):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, number)
        os.close(opened)
    atexit.register(_leave_the_rest_alone)
    os.environ.clear()
    os.environ.update(ast.literal_eval((folder / "environment").read_text(encoding="utf-8")))
    tempfile.tempdir = None  # it is found in the environment


def _leave_the_rest_alone() -> None:
    """Keep what was there before from being looked through for garbage at the end, and copied for that."""
    gc.collect(1)
    gc.freeze()


def become_child(*modules: str) -> str:
    """Return the name of the folder whose child this fork is to be; it has torch and more modules.

    The package's modules are there too, as where a program activates, deactivates and activates again.
    """
    for name in ("torch", "pytest", "hypothesis", *modules):
        importlib.import_module(name)
    importlib.import_module("torchdevice_cuda.translate.patches").registered()
    return str(fork_for_each_folder())


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
