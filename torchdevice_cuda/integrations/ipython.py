"""Notebooks: ``%load_ext torchdevice_cuda`` activates, and ``%%torchdevice_report`` shows what a cell did.

Works when torch has been imported already, and where torchdevice_cuda is active already: then the program's requests
were not counted from the start, and the report says so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

from .. import activation
from ..native import build
from ..report import page, tables, text
from ..report.document import Document

MAGIC = "torchdevice_report"


class Shown:
    """A report as a cell's output: tables where HTML is shown, columns where text is."""

    def __init__(self, document: Document) -> None:
        #: the report as data
        self.document = document

    def __repr__(self) -> str:
        return text.plain(self.document, text.SHOWN)

    def _repr_html_(self) -> str:
        return page.cells(self.document)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


class _Extension:
    """The parts that are loaded into one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        #: whether it was this that activated
        self.activated = False

    def report(self, line: str, cell: str | None = None) -> Shown | None:
        """``%%torchdevice_report``: run a cell and show what it did. ``%torchdevice_report``: what the session did.

        The cell runs as it would without: its output comes first, and an error in it is shown with the report.
        """
        if line.strip():
            name = f"%{'%' if cell is not None else ''}{MAGIC}"
            raise _on_one_line(ValueError(f"{name} takes no arguments, not {line.strip()!r}: remove it"))
        collector = activation.collector()
        if cell is None:
            return Shown(_name(collector.document(), "this session"))
        collector.take()
        # A comment takes the place of the magic's line, so that lines have the numbers that the notebook shows.
        source = cell if cell.lstrip().startswith("%%") else f"#\n{cell}"
        with _numbered_as_shown(self._shell):
            result = self._shell.run_cell(source)
        taken = Shown(_name(collector.take(), f"cell {_count(self._shell)}"))
        if result.success:
            return taken
        # The shell has shown the error; the cell with the report must not look well, as no cell after it may run.
        from IPython.display import display

        display(taken)
        raise _quiet(result.error_before_exec or result.error_in_exec)


@contextlib.contextmanager
def _numbered_as_shown(shell: Any) -> Iterator[None]:
    """Compile with the number of the cell that is running: releases of IPython count it before or after it ran."""
    count = shell.execution_count
    shell.execution_count = _count(shell)
    try:
        yield
    finally:
        shell.execution_count = count


def _count(shell: Any) -> int:
    """Return the number of the cell that is running."""
    return max(1, len(shell.history_manager.input_hist_parsed) - 1)


def _name(document: Document, name: str) -> Document:
    """Return a report in which this process has a name instead of the command line of a kernel."""
    first, *others = document.processes
    return dataclasses.replace(document, processes=(dataclasses.replace(first, command=name), *others))


def _quiet(error: BaseException) -> BaseException:
    """Return an error of which the shell shows one line, since it has shown the rest."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: as above, in the cell of %%{MAGIC}"]  # type: ignore[attr-defined]
    return error


def _on_one_line(error: BaseException) -> BaseException:
    """Return an error of which the shell shows one line: what it says is about this machine, not about our code."""
    error._render_traceback_ = lambda: [f"{type(error).__name__}: {error}"]  # type: ignore[attr-defined]
    return error


_loaded: dict[int, _Extension] = {}


def load(shell: Any) -> None:
    """Activate in this process, and add the magics to a shell."""
    extension = _Extension(shell)
    build.overwrites_lines = hasattr(shell, "kernel")
    if not activation.is_active():
        try:
            activation.start({}, _raise, counted=True)
        except Exception as error:
            raise _on_one_line(error) from error.__cause__
        extension.activated = True
    tables.number_of_cell = functools.partial(_number_of_cell, shell)
    shell.register_magic_function(extension.report, "line_cell", MAGIC)
    _loaded[id(shell)] = extension


def _number_of_cell(shell: Any, file: str) -> int | None:
    """Return the number of the cell that a shell compiled as a file, read from the name for tracebacks: ``In[3]``."""
    _, name = shell.compile.format_code_name(file) or ("", "")
    number = name.removeprefix("In[").removesuffix("]")
    return int(number) if number.isdecimal() else None


def unload(shell: Any) -> None:
    """Take them away, and put torch back where it was this extension that changed it."""
    extension = _loaded.pop(id(shell), None)
    if extension is None:
        return
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(MAGIC, None)
    if not _loaded:
        tables.number_of_cell = None
        if extension.activated:
            activation.deactivate()


def _raise(failure: BaseException) -> None:
    raise _on_one_line(failure) from failure.__cause__
