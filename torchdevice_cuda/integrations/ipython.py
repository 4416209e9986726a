"""Notebooks: ``%load_ext torchdevice_cuda`` activates, and ``%%torchdevice_report`` shows what a cell did.

Works when torch has been imported already, and where torchdevice_cuda is active already: then the program's requests
were not counted from the start, and the report says so.
"""

from __future__ import annotations

from typing import Any

from .. import activation
from ..native import build
from ..report import page, text
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
            return Shown(collector.document())
        collector.take()
        result = self._shell.run_cell(cell)
        taken = Shown(collector.take())
        if result.success:
            return taken
        # The shell has shown the error; the cell with the report must not look well, as no cell after it may run.
        from IPython.display import display

        display(taken)
        raise _quiet(result.error_before_exec or result.error_in_exec)


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
    shell.register_magic_function(extension.report, "line_cell", MAGIC)
    _loaded[id(shell)] = extension


def unload(shell: Any) -> None:
    """Take them away, and put torch back where it was this extension that changed it."""
    extension = _loaded.pop(id(shell), None)
    if extension is None:
        return
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(MAGIC, None)
    if extension.activated and not _loaded:
        activation.deactivate()


def _raise(failure: BaseException) -> None:
    raise _on_one_line(failure) from failure.__cause__
