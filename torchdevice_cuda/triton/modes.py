"""How launches of a thread are made: tried only, or trusted. Without NumPy, which only launches themselves need."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class _Modes(threading.local):
    """The modes of this thread."""

    #: launches only find out whether they could be made
    only_tried = False
    #: a graph that was compiled for the device makes launches, with its tensors as the host's
    trusted = False


MODES = _Modes()


@contextlib.contextmanager
def only_tried() -> Iterator[None]:
    """Compile and check the launches in here, and compute nothing."""
    before, MODES.only_tried = MODES.only_tried, True
    try:
        yield
    finally:
        MODES.only_tried = before


@contextlib.contextmanager
def trusted() -> Iterator[None]:
    """Take the tensors of the launches in here for the device's: the launches are part of work that it knows of."""
    before, MODES.trusted = MODES.trusted, True
    try:
        yield
    finally:
        MODES.trusted = before
