"""When a report is written: as the process ends, in each of the ways in which Python has a say.

There is none where Python has no say: ``os._exit``, SIGKILL, an abort or a crash.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Protocol

from . import destination, tables
from .tables import Table

#: The process that the report's plain name is for. Children inherit it with the settings, and write beside.
_WRITER = "_TORCHDEVICE_REPORT_WRITER"
Handler = Callable[[int, FrameType | None], None]


class Contents(Protocol):
    """What a report is made of."""

    def tables(self) -> Sequence[Table]:
        """All of it so far."""

    def forget(self) -> None:
        """Begin again, in a forked child: what its parent counted is the parent's to report."""


class AtExit:
    """Writes the report of one activation when this process ends, and when its children do, each its own."""

    def __init__(self, contents: Contents, named: str) -> None:
        self._contents, self._named = contents, named
        self._owner = os.getpid()
        # Children inherit the setting; the first process keeps the plain name.
        os.environ.setdefault(_WRITER, str(self._owner))
        self._handler: Handler | None = None
        self._active = True
        self._begin()
        _living.add(self)
        atexit.register(self.write)
        self._watch_multiprocessing()
        self._watch_termination()

    def _begin(self) -> None:
        # Reentrant: a signal may come while this thread has it.
        self._lock = threading.RLock()
        self._written: str | None = None
        self._writer: threading.Thread | None = None
        self._terminated = False

    def forked(self) -> None:
        """In a forked child: begin again. Another thread of the parent may have had the lock."""
        self._begin()
        self._contents.forget()

    def write(self) -> None:
        """Write it, unless it stands there already. What goes wrong is one line: the program's end is its own."""
        with self._lock:
            self._writer = threading.current_thread()
            try:
                if self._active:
                    self._write()
            except OSError as error:
                destination.complain(self._named, error)
            finally:
                self._writer = None
        if self._terminated and threading.current_thread() is threading.main_thread():
            _die()

    def write_now(self) -> None:
        """Write it now instead, for a deactivation before the end."""
        atexit.unregister(self.write)
        if self._handler is not None and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is self._handler:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handler = None
        self.write()
        self._active = False
        destination.release(self._named)

    def _write(self) -> None:
        contents = self._contents.tables()
        first = os.getpid() == self._owner and os.environ.get(_WRITER, str(self._owner)) == str(self._owner)
        # A worker that asked for nothing has nothing to say; there may be thousands.
        if not first and not any(table.rows for table in contents):
            return
        named = self._named if first else destination.beside(self._named, os.getpid())
        text = (tables.page if named.endswith(".html") else tables.text)(contents)
        if text != self._written:
            destination.write(named, text)
            self._written = text

    def _watch_multiprocessing(self) -> None:
        """A process that multiprocessing forked ends without Python's exit functions, but not without its own."""
        from multiprocessing import process, util

        util.register_after_fork(self, _at_end_of_child)
        if process.parent_process() is not None:  # forked before it activated: by a fork server
            _at_end_of_child(self)

    def _watch_termination(self) -> None:
        """Without a handler a SIGTERM ends the process at once; a program that has one decides for itself."""
        if threading.current_thread() is not threading.main_thread():
            return  # Python takes handlers from there alone
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handler = self._on_termination
            signal.signal(signal.SIGTERM, self._handler)

    def _on_termination(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True
        if self._writer is not threading.current_thread():  # else it has interrupted the writing, and waits for its end
            self.write()


def _die() -> None:
    """Die of SIGTERM, so that whoever waits for the process sees how it ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _at_end_of_child(writer: AtExit) -> None:
    """Have a child of multiprocessing write its own; it forgets what its parent registered."""
    from multiprocessing import util

    # Weakly: what is registered there is held for ever.
    util.Finalize(None, _write_living, args=(weakref.ref(writer),), exitpriority=0)


def _write_living(writer: weakref.ref[AtExit]) -> None:
    living = writer()
    if living is not None:
        living.write()


_living: weakref.WeakSet[AtExit] = weakref.WeakSet()


def _in_forked_child() -> None:
    for writer in tuple(_living):
        writer.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_forked_child)
