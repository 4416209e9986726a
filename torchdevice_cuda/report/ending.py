"""Write a report as the process ends, at each exit that Python notices.

Python does not notice ``os._exit``, SIGKILL, an abort or a crash: then there is none.
"""

from __future__ import annotations

import atexit
import dataclasses
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType

from . import destination, text
from .collecting import Collector
from .document import Document
from .family import ProcessTree, wait_for_children

Handler = Callable[[int, FrameType | None], None]


class AtExit:
    """Writes the report of one activation when this process ends, or passes it to the first process."""

    def __init__(self, contents: Collector, named: str) -> None:
        self._contents, self._named = contents, named
        self._owner = os.getpid()
        self._family = ProcessTree(named)
        if not self._family.is_first():
            self._family.begin(contents.process("running"))
        self._handler: Handler | None = None
        self._active = True
        self._begin()
        _living.add(self)
        atexit.register(self._at_exit)
        self._watch_multiprocessing()
        self._watch_termination()

    def _begin(self) -> None:
        # Reentrant: a signal may arrive while this thread holds it.
        self._lock = threading.RLock()
        self._written: Document | None = None
        self._writer: threading.Thread | None = None
        self._terminated = False

    def forked(self) -> None:
        """Reset in a forked child. Another thread of the parent may have held the lock."""
        self._begin()
        self._family.forked()
        # A child that counts nothing leaves no note; there may be thousands.
        self._contents.forget(lambda: self._family.begin(self._contents.process("running")))

    def _at_exit(self) -> None:
        if os.getpid() == self._owner:
            wait_for_children()
        self.write()
        # A thread that still computes would need the interpreter, to find its line, while that ends.
        self._contents.stop()

    def write(self) -> None:
        """Write the report, unless it is written. An error is one line: it must not change the program's end."""
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
        atexit.unregister(self._at_exit)
        if self._handler is not None and threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGTERM) is self._handler:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._handler = None
        self.write()
        self._active = False
        self._contents.stop()
        self._family.end()
        destination.release(self._named)

    def _write(self) -> None:
        named = self._named
        if self._family.is_first():
            document = self._family.gathered(self._contents.document())
        else:
            document = self._contents.document()
            if self._family.hand_in(document) or document.is_empty():
                return
            # The process that would have merged it has ended.
            named = destination.beside(named, os.getpid())
        # Times continue while nothing is counted.
        counted = dataclasses.replace(document, seconds=0.0, processes=())
        if counted != self._written:
            destination.write(named, rendered(document, named))
            if self._written is None:
                destination.announce(named)
            self._written = counted

    def _watch_multiprocessing(self) -> None:
        """Write at the end of forked multiprocessing children, which skip Python's exit functions, but not its own."""
        from multiprocessing import process, util

        util.register_after_fork(self, _at_end_of_child)
        if process.parent_process() is not None:  # forked before it activated: by a fork server
            _at_end_of_child(self)

    def _watch_termination(self) -> None:
        """Handle SIGTERM, which ends the process at once without a handler; a program's own handler stays."""
        if threading.current_thread() is not threading.main_thread():
            return  # Python accepts handlers only there
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            self._handler = self._on_termination
            signal.signal(signal.SIGTERM, self._handler)

    def _on_termination(self, number: int, frame: FrameType | None) -> None:
        self._terminated = True
        # otherwise it interrupted the writing, and waits for its end
        if self._writer is not threading.current_thread():
            self.write()


def _die() -> None:
    """Die of SIGTERM, so that the parent sees how the process ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _at_end_of_child(writer: AtExit) -> None:
    """Make a child of multiprocessing write its own report; it drops its parent's registrations."""
    from multiprocessing import util

    # Weakly: registrations there are kept forever.
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


def rendered(document: Document, named: str) -> str:
    """Return the whole text: a page for ``.html``, data for ``.json``, tables otherwise."""
    lower = named.lower()
    if lower.endswith((".html", ".htm")):
        from .page import page

        return page(document)
    if lower.endswith(".json"):
        return document.to_json()
    if named == destination.STANDARD_ERROR:
        return "\n" + text.for_terminal(document, colours=_is_watched())
    return text.plain(document)


def _is_watched() -> bool:
    """Return whether standard error is a terminal."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
