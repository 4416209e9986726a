"""CUDA's streams and events over the Apple GPU's only queue.

The queue runs all work in the order of submission, so CUDA's ordering rules hold by themselves; what remains is when
work is done, and how long it took. The events of ``torch.mps`` report both, with pitfalls:

- ``elapsed_time`` consumes the time that its second event recorded, and waits for it while holding the GIL: a second
  call never returns. ``synchronize`` may consume it, too. So each recording of a timed event uses a new Metal event,
  whose time is read once, relative to one event that is the origin of all times.
- It refuses events in the wrong order, for which CUDA returns a negative time. Differences of these times are negative
  then.
- An event signals a moment after it was recorded, even if the queue is idle.

A wait polls and sleeps in turns, which releases the GIL and has a limit. If Metal does not answer, the host's clock
does. Streams that the program itself keeps busy (``torch.cuda._sleep``) use the host's clock anyway.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable

from ..host.streams import HostStreams
from ..streams import EventState, StreamState

_SHORTEST_S, _LONGEST_S = 20e-6, 1e-3  # between two polls; the pause grows from the first to the second
_PATIENCE_S = 10.0  # for a signal. Then the whole queue is waited for, and an event without a signal never gets one
_GRACE_S = 1.0
#: Seconds in which an idle queue has to signal, and the limit if they were too few.
_MOMENT_S, _LONG_MOMENT_S = 2e-3, 20e-3
#: After this time Metal's listener thread has recorded the time of an event that has signalled. An event that returns
#: to torch's pool earlier is reused, and its next user would get the old time.
_NOTED_NS = 50_000_000


class Recording:
    """One recording in the queue: a Metal event that is recorded once.

    It uses torch's functions for events: from 2.15 on the class ``torch.mps.Event`` also queries the current stream,
    and only the first stream is used here.
    """

    def __init__(self, timing: bool) -> None:
        import torch

        self._release, self._id = torch._C._mps_releaseEvent, 0
        self._id = torch._C._mps_acquireEvent(timing)
        torch._C._mps_recordEvent(self._id)
        self.moment = time.monotonic_ns()
        #: Milliseconds after the anchor, on the GPU's clock; ``None`` before they are read, or if there are none.
        self.milliseconds: float | None = None
        self.asked = False

    def __del__(self) -> None:
        if self._id:
            self._release(self._id)

    def signalled(self) -> bool:
        """Return whether all work before it is done."""
        import torch

        return bool(torch._C._mps_queryEvent(self._id))

    def since(self, start: Recording) -> float:
        """Return the milliseconds after another event. Call it once, after the signal: a second call hangs."""
        import torch

        return float(torch._C._mps_elapsedTimeOfEvents(start._id, self._id))


class MpsStreams(HostStreams):
    """Streams whose synchronization also waits for the queue."""

    def __init__(self, device_count: int, cycles_per_second: Callable[[int], float]) -> None:
        super().__init__(device_count, cycles_per_second)
        # These locks are held while Python runs: a signal handler, on the same thread, may need them again meanwhile.
        self._metal_lock = threading.RLock()
        #: The origin of all times: recorded before every timed event, and never the end of a measurement.
        self._anchor: Recording | None = None
        self._anchored = False
        self._timed: collections.deque[Recording] = collections.deque()
        self._marker_lock = threading.RLock()
        self._marker: Recording | None = None
        self._misses = 0

    # ------------------------------------------------------------------ waiting
    def query(self, stream_id: int, device: int) -> bool:
        return super().query(stream_id, device) and self._idle()

    def synchronize(self, stream_id: int, device: int) -> None:
        """Wait for all work of a stream, that is, of the queue."""
        super().synchronize(stream_id, device)
        self.drain()

    def synchronize_device(self, device: int) -> None:
        super().synchronize_device(device)
        self.drain()

    def _idle(self) -> bool:
        """Return whether the queue is empty: an event that is recorded now signals within a moment.

        An event that has not signalled is stored, and no other is added until it has, so that a polling loop does not
        fill the queue. After its signal, more work may have been added, so another event is needed.
        """
        with self._marker_lock:
            if self._marker is not None:
                if not self._marker.signalled():
                    return False
                self._misses += 1
            self._marker = Recording(timing=False)
            if _signals(self._marker, min(_MOMENT_S * (1 + self._misses), _LONG_MOMENT_S)):
                self._marker, self._misses = None, 0
            return self._marker is None

    def drain(self) -> None:
        """Wait for the whole queue. torch's own function holds the GIL, so it comes last."""
        import torch

        _signals(Recording(timing=False), _PATIENCE_S)
        torch._C._mps_deviceSynchronize()

    def _arrives(self, recording: Recording) -> bool:
        """Wait for a signal; return false if there is none though all work is done."""
        if _signals(recording, _PATIENCE_S):
            return True
        self.drain()
        return _signals(recording, _GRACE_S)

    # ------------------------------------------------------------------- events
    def _record(self, event: EventState, state: StreamState) -> None:
        """Make the event complete when all work now in the queue has."""
        if event.timing:
            self._lay_anchor()
        super()._record(event, state)
        event.held_by_host = event.completes_at > time.monotonic_ns()
        event.native = Recording(event.timing)
        if event.timing:
            self._keep(event.native)

    def query_event(self, event: EventState) -> bool:
        return super().query_event(event) and (event.native is None or event.native.signalled())

    def synchronize_event(self, event: EventState) -> None:
        super().synchronize_event(event)
        recording: Recording | None = event.native
        if recording is not None and not self._arrives(recording) and event.native is recording:
            event.native = None
            event.completes_at = time.monotonic_ns()

    def elapsed_ms(self, start: EventState, end: EventState) -> float:
        """Return the GPU's milliseconds between two completed events; the host's if a sleeping stream delayed one."""
        on_host = super().elapsed_ms(start, end)
        if start.held_by_host or end.held_by_host or start.native is None or end.native is None:
            return on_host
        first, last = self._milliseconds(start.native), self._milliseconds(end.native)
        return on_host if first is None or last is None else last - first

    def _lay_anchor(self) -> None:
        """Record the origin of all times; if that fails, the host's clock is used."""
        with self._metal_lock:
            if self._anchored:
                return
            anchor = Recording(timing=True)
            arrived = self._arrives(anchor)
            # since() synchronizes where an error of the GPU ends the process. Here the program gets a pending one, as
            # CUDA raises it at a later call, and the next timed event lays the anchor.
            self.drain()
            self._anchored = True  # even without a signal: a retry takes as long as the timeout
            if arrived:
                # It raises after the time has been recorded: an event is not later than itself.
                with contextlib.suppress(RuntimeError):
                    anchor.since(anchor)
                self._anchor = anchor

    def _keep(self, recording: Recording) -> None:
        """Keep a timed event alive until its time has been recorded, even if the program drops its own event."""
        noted = recording.moment - _NOTED_NS
        with self._lock:
            self._timed.append(recording)
            while self._timed[0].moment < noted and self._timed[0].signalled():
                self._timed.popleft()

    def _milliseconds(self, recording: Recording) -> float | None:
        """Return the completion time of a completed recording, on the GPU's clock."""
        with self._metal_lock:
            if not recording.asked and self._anchor is not None:
                recording.asked = True
                # since() waits for the whole queue while holding the GIL, so make sure that the queue is empty.
                self.drain()
                with contextlib.suppress(RuntimeError):
                    recording.milliseconds = recording.since(self._anchor)
            return recording.milliseconds


def _signals(recording: Recording, patience: float) -> bool:
    """Return whether a signal arrives within ``patience`` seconds."""
    last, pause = time.monotonic() + patience, _SHORTEST_S
    while not recording.signalled():
        if time.monotonic() > last:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_S)
    return True
