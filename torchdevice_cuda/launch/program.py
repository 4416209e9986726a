"""Run a program as ``__main__``, in the same environment as with plain python.

Each function sets ``sys.argv``, ``sys.path`` and a new ``__main__`` module as python itself does for that kind of
program, and lets the program's exceptions out: the interpreter ends the process as usual (exit status, ``SystemExit``,
death by SIGINT), except that tracebacks begin with the program's own frames. The public functions of :mod:`runpy` do
not fit: they restore ``__main__`` when the program returns, before ``atexit`` handlers and threads are done.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
import sysconfig
from collections.abc import Callable, Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import Any


class ProgramNotFound(Exception):
    """The script cannot be read; the text is python's message."""


def run_script(path: str, args: Sequence[str]) -> None:
    """Run ``python path args…``: a source file, a compiled file, a folder or an archive with a ``__main__``.

    Where there is no such file, an installed command of that name is run, such as ``torchrun``.
    """
    path = _find_command(path)
    sys.argv = [path, *args]
    full = _absolute(path)
    if _is_importable_from(full):
        # Python adds a folder or an archive to the path even if -P or -I exclude script folders.
        _put_first_entry(full)
        fresh_main()
        # The interpreter itself calls this function: runpy's frames in a traceback are genuine.
        _run(lambda: runpy._run_module_as_main("__main__", False))  # type: ignore[attr-defined]
        return
    loader: SourceFileLoader | SourcelessFileLoader
    source: bytes | CodeType | None
    try:
        if path.endswith(".pyc"):
            loader = SourcelessFileLoader("__main__", full)
            source = loader.get_code("__main__")
        else:
            loader = SourceFileLoader("__main__", full)
            source = loader.get_data(full)
    except OSError as error:
        raise ProgramNotFound(
            f"{sys.orig_argv[0]}: can't open file {full!r}: [Errno {error.errno}] {error.strerror}"
        ) from None
    _put_program_entry(os.path.dirname(os.path.realpath(full)))
    main = fresh_main()
    main.__loader__ = loader
    _execute_file(main, source, full)


def _find_command(name: str) -> str:
    """Return the script of an installed command in Python if a name is that and no file's; else the name."""
    if os.path.basename(name) != name or os.path.lexists(name):
        return name
    script = os.path.join(sysconfig.get_path("scripts"), name)
    try:
        with open(script, "rb") as file:
            start = file.read(512)
    except OSError:
        return name
    return script if start.startswith(b"#!") and b"python" in start else name


def run_module(name: str, args: Sequence[str]) -> None:
    """Run ``python -m name args…``."""
    sys.argv = ["-m", *args]
    _put_program_entry(os.getcwd())
    fresh_main()
    _run(lambda: runpy._run_module_as_main(name))  # type: ignore[attr-defined]


def run_command(code: str, args: Sequence[str]) -> None:
    """Run ``python -c code args…``."""
    if sys.version_info >= (3, 14):
        import textwrap

        code = textwrap.dedent(code)
    if sys.version_info >= (3, 13):  # since then python shows the lines of -c in tracebacks
        import linecache

        linecache.cache["<string>"] = (len(code), None, code.splitlines(keepends=True), "<string>")
    sys.argv = ["-c", *args]
    _put_program_entry("")
    main = fresh_main()
    _run(lambda: exec(_compile(code, "<string>"), main.__dict__))


def run_stdin(name: str, args: Sequence[str]) -> None:
    """Run ``python - args…`` (``name`` is ``"-"``) or ``python < file`` (``name`` is empty): stdin is the program."""
    sys.argv = [name, *args]
    _put_program_entry("")
    main = fresh_main()
    _execute_file(main, sys.stdin.buffer.read() if sys.stdin is not None else b"", "<stdin>")


def prepare_interactive(name: str, args: Sequence[str]) -> ModuleType:
    """Return the ``__main__`` of an interactive session."""
    sys.argv = [name, *args]
    _put_program_entry("")
    return fresh_main()


def fresh_main() -> ModuleType:
    """Replace ``__main__`` by a module as the interpreter creates it before it reads any program."""
    main = ModuleType("__main__")
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__builtins__ = builtins  # type: ignore[attr-defined]
    main.__loader__ = BuiltinImporter
    sys.modules["__main__"] = main
    return main


# ---------------------------------------------------------------------------- sys.path
def _absolute(path: str) -> str:
    """Return the absolute path as python computes it: joined, not normalized."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


_dropped = False


def drop_first_entry() -> None:
    """Remove the entry of ``sys.path`` that python put first: the current directory, or the launcher's.

    Until the program gets its own entry, nothing is imported from there: torchdevice_cuda must not import a project's
    ``logging.py``.
    """
    global _dropped
    if not _dropped and _first_entry_is_wanted():
        del sys.path[0]
    _dropped = True


def _first_entry_is_wanted() -> bool:
    """Return whether python puts an entry for the program first on the path; -P and -I prevent that."""
    return not (getattr(sys.flags, "safe_path", False) or sys.flags.isolated)


def _put_program_entry(entry: str) -> None:
    if _first_entry_is_wanted():
        _put_first_entry(entry)


def _put_first_entry(entry: str) -> None:
    global _dropped
    sys.path.insert(0, entry)
    _dropped = False  # the program may be torchdevice_cuda again: python -m torchdevice_cuda -m torchdevice_cuda


def _is_importable_from(path: str) -> bool:
    """Return whether the import system accepts the path as a folder or an archive of modules."""
    for hook in sys.path_hooks:
        try:
            hook(path)
        except ImportError:
            continue
        return True
    return False


# --------------------------------------------------------------------------- execution
def _compile(source: bytes | str, filename: str) -> CodeType:
    return compile(source, filename, "exec", dont_inherit=True)


def _execute_file(main: ModuleType, source: bytes | CodeType | None, filename: str) -> None:
    main.__file__ = filename
    main.__cached__ = None  # type: ignore[attr-defined]

    def execute() -> None:
        code = source if isinstance(source, CodeType) else _compile(source or b"", filename)
        exec(code, main.__dict__)

    _run(execute)


def _run(execute: Callable[[], Any]) -> None:
    """Call it; an exception goes to the interpreter, which reports it without the launcher's frames."""
    try:
        execute()
    except SystemExit:
        raise
    except BaseException as error:
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_frame.f_globals is globals():
            traceback = traceback.tb_next
        _suggest_package(error)
        _report_from(error, traceback)
        raise


def _suggest_package(error: BaseException) -> None:
    """Say where a package comes from, or which setting provides it, if its import ended the program."""
    if not isinstance(error, (ImportError, OSError)):
        return
    from ..activation import current_settings, is_active
    from ..stand_ins import suggesting
    from ..triton import absent

    enabled = current_settings().stand_ins if is_active() else ()
    line = suggesting.suggest(error, enabled) or absent.suggest(error)
    if line is not None and hasattr(error, "add_note"):
        error.add_note(line)
    elif line is not None:  # Python 3.10
        print(line, file=sys.stderr)


def _missing_hook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
    """Do what the interpreter does if a program has deleted ``sys.excepthook``."""
    print("sys.excepthook is missing", file=sys.stderr)
    sys.__excepthook__(kind, value, traceback)


def _report_from(error: BaseException, start: TracebackType | None) -> None:
    """Make the interpreter's traceback of ``error`` begin at ``start``.

    The outer frames are only known once the exception has left them, which is when the interpreter calls
    ``sys.excepthook``; until then this hook replaces the program's own.
    """
    program_hook = getattr(sys, "excepthook", _missing_hook)

    def hook(kind: type[BaseException], value: BaseException, traceback: TracebackType | None) -> None:
        sys.excepthook = program_hook
        if value is error:
            traceback = start
            value.__traceback__ = sys.last_traceback = start
        try:
            program_hook(kind, value, traceback)
        except SystemExit:
            raise
        except BaseException as failure:
            # The interpreter's own message for a hook that fails; from the interpreter it would show this function.
            inner = failure.__traceback__.tb_next if failure.__traceback__ is not None else None
            print("Error in sys.excepthook:", file=sys.stderr)
            sys.__excepthook__(type(failure), failure.with_traceback(inner), inner)
            print("\nOriginal exception was:", file=sys.stderr)
            sys.__excepthook__(kind, value, traceback)

    sys.excepthook = hook
