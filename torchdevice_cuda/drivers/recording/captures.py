"""Graph captures that are underway: the streams that take part, and the calls that are refused meanwhile.

The rules are CUDA's, as in the compiled device (``csrc/core/runtime/captures.h``). Nothing here computes or needs
torch: streams are created during ``import torch``.
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
    """The captures of a driver's streams. Without one, every call costs a check of :attr:`underway`."""

    def __init__(self) -> None:
        self.underway: list[Capture] = []
        #: captures that ended on another thread than they began on: their own thread leaves them later
        self.left: list[Capture] = []
        self._lock = threading.Lock()

    def of(self, stream: StreamState) -> Capture | None:
        """Return the capture that a stream takes part in, if any."""
        return next((capture for capture in self.underway if capture.takes(stream)), None)

    def begin(self, capture: Capture) -> None:
        """Record the work of the capture's first stream from now on."""
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
        """Stop observing the operators of a capture's thread; only that thread itself can do it."""
        if capture.thread == threading.get_ident():
            capture.leave()
        else:
            self.left.append(capture)

    def tidy(self) -> None:
        """Leave the captures of this thread that ended on another one."""
        for capture in [capture for capture in self.left if capture.thread == threading.get_ident()]:
            self.left.remove(capture)
            capture.leave()

    def stream_here(self, device: int) -> int:
        """Return the stream of a thread that has chosen none: the capture's, if the thread computes for a capture."""
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
        """Refuse to wait for a stream, or to query it."""
        capture = self.of(stream)
        if capture is not None:
            raise cuda_error(INVALIDATED) if capture.broken else capture.fail(UNSUPPORTED)
        self._refuse(Capture.minds_this_thread)

    def refuse_waiting_for_device(self, device: int) -> None:
        """Refuse to wait for all streams of a device."""
        self._refuse(lambda capture: capture.origin.device == device)

    def refuse_asking(self, event: EventState) -> None:
        """Refuse to wait for an event, or to query it."""
        capture = None if event.captured is None else event.captured[0]
        if capture is not None:
            raise cuda_error(INVALID_VALUE) if capture.ended else capture.fail(CAPTURED_EVENT)
        self._refuse(Capture.minds_this_thread)

    # -------------------------------------------------------------------- events
    def record(self, event: EventState, stream: StreamState) -> bool:
        """Record the position of an event in a capture; return false if its stream takes part in none."""
        capture = self.of(stream)
        event.captured = None
        if capture is None:
            return False
        if capture.broken:
            raise cuda_error(INVALIDATED)
        event.captured = capture, dict(capture.streams[stream.key])
        return True

    def wait(self, event: EventState, stream: StreamState) -> bool:
        """Make a stream take part in the event's capture; return false if neither is in one."""
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
