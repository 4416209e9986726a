"""Captures of graphs that are underway: which streams take part, and what may not be done meanwhile.

The rules are CUDA's, as the compiled device has them (``csrc/core/runtime/captures.h``). Nothing here computes, and
nothing needs torch: streams are made in the middle of ``import torch``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..errors import cuda_error
from ..streams import DEFAULT_STREAM, Capture, EventState, Streams, StreamState

INVALID_VALUE, ILLEGAL_STATE = 1, 401
UNSUPPORTED, INVALIDATED, MERGE, UNJOINED, ISOLATION = 900, 901, 902, 904, 905
CAPTURED_EVENT, WRONG_THREAD = 907, 908


class Captures:
    """The captures of a driver's streams. Without one, every call costs a look at :attr:`underway`."""

    def __init__(self) -> None:
        self.underway: list[Capture] = []
        #: captures that ended on other threads than they began on: each leaves its own at the next occasion
        self.left: list[Capture] = []
        self._lock = threading.Lock()

    def of(self, stream: StreamState) -> Capture | None:
        """Return the capture that a stream takes part in, if any."""
        return next((capture for capture in self.underway if capture.takes(stream)), None)

    def begin(self, capture: Capture) -> None:
        """Record what the capture's first stream is given from now on."""
        with self._lock:
            taken = self.of(capture.origin) is not None
            if not taken:
                self.underway.append(capture)
        if taken:
            raise cuda_error(ILLEGAL_STATE)

    def end(self, capture: Capture) -> Exception | None:
        """End the capture; return the error, if it is invalid."""
        with self._lock:
            capture.ended = True
            if capture in self.underway:
                self.underway.remove(capture)
        if capture.broken:
            return cuda_error(INVALIDATED)
        return cuda_error(UNJOINED) if capture.unjoined() else None

    def leave(self, capture: Capture) -> None:
        """Have nobody watch the operators of a capture's thread any more: another thread cannot do that."""
        if capture.thread == threading.get_ident():
            capture.leave()
        else:
            self.left.append(capture)

    def tidy(self) -> None:
        """Leave what has ended elsewhere."""
        for capture in [capture for capture in self.left if capture.thread == threading.get_ident()]:
            self.left.remove(capture)
            capture.leave()

    def stream_here(self, device: int) -> int:
        """Return the stream of a thread that has chosen none: where it computes for a capture, that of the capture."""
        for capture in self.underway:
            if capture.origin.device == device and capture.thread != threading.get_ident() and capture.is_handed_on():
                return capture.origin.stream_id
        return DEFAULT_STREAM

    # ------------------------------------------------------------ what is refused
    def _refuse(self, concerned: Callable[[Capture], bool]) -> None:
        found = [capture for capture in self.underway if concerned(capture)]
        for capture in found:
            capture.broken = True
        if found:
            raise cuda_error(UNSUPPORTED)

    def refuse_waiting_for(self, stream: StreamState) -> None:
        """Waiting for a stream, or asking whether it is done."""
        capture = self.of(stream)
        if capture is not None:
            raise cuda_error(INVALIDATED) if capture.broken else capture.fail(UNSUPPORTED)
        self._refuse(Capture.minds_this_thread)

    def refuse_waiting_for_device(self, device: int) -> None:
        """Waiting for all of a device's streams."""
        self._refuse(lambda capture: capture.origin.device == device)

    def refuse_asking(self, event: EventState) -> None:
        """Waiting for an event, or asking whether it is done."""
        capture = None if event.captured is None else event.captured[0]
        if capture is not None:
            raise cuda_error(INVALID_VALUE) if capture.ended else capture.fail(CAPTURED_EVENT)
        self._refuse(Capture.minds_this_thread)

    # -------------------------------------------------------------------- events
    def record(self, event: EventState, stream: StreamState) -> bool:
        """Note where in a capture an event is; false where its stream takes part in none."""
        capture = self.of(stream)
        event.captured = None
        if capture is None:
            return False
        if capture.broken:
            raise cuda_error(INVALIDATED)
        event.captured = capture, dict(capture.streams[stream.key])
        return True

    def wait(self, event: EventState, stream: StreamState) -> bool:
        """Have a stream take part in the event's capture; false where neither is in one."""
        ours, (theirs, clock) = self.of(stream), event.captured or (None, {})
        if any(capture is not None and capture.broken for capture in (ours, theirs)):
            raise cuda_error(INVALIDATED)
        if theirs is None:
            if ours is None:
                return False
            raise ours.fail(ISOLATION)
        if theirs.ended:
            raise cuda_error(INVALID_VALUE)
        if ours is not None and ours is not theirs:
            theirs.broken = True
            raise ours.fail(MERGE)
        into = theirs.streams.setdefault(stream.key, {})
        for key, done in clock.items():
            into[key] = max(into.get(key, 0), done)
        return True


class CapturingStreams(Streams):
    """Streams whose work can be captured."""

    captures: Captures
