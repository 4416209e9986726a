"""CUDA's streams and events over the one queue of the Apple GPU.

All work goes through one queue in the order in which it was given, so that whatever CUDA's ordering rules ask for holds
by itself; what is left is to tell the truth about when work is done, and how long it took. The events of ``torch.mps``
know both, and have traps that none of this may fall into:

- ``elapsed_time`` takes away what its second event left when it was recorded, and waits for it with the interpreter
  held: a second call never returns. ``synchronize`` may take it, too. So a timed event of ours is a new one of Metal's
  at each recording, which is asked for its time once, against one event that all are measured from.
- It refuses events in the wrong order, which CUDA gives a negative time. Differences of our times do.
- An event signals a moment after it was recorded, however idle the queue is.

Waiting is asking and sleeping in turns, which leaves the interpreter to others and has an end. What Metal does not
answer, the host's clock does. Streams that the program itself keeps busy (``torch.cuda._sleep``) are kept on it anyway.
"""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable

from ..host.streams import HostStreams
from ..streams import EventState, StreamState

_SHORTEST_S, _LONGEST_S = 20e-6, 1e-3  # between two questions; they grow from the one to the other
_PATIENCE_S = 10.0  # for a signal. Then the whole queue is waited for, and what has not signalled by then never will
_GRACE_S = 1.0
#: Seconds that an idle queue gets to report that it is idle, and the limit if they were too few.
_MOMENT_S, _LONG_MOMENT_S = 2e-3, 20e-3
#: By then the thread that listens for Metal has noted the time of an event that has signalled. An event that goes back
#: to torch's pool before is handed out again, and the next to record it would be told of the old time.
_NOTED_NS = 50_000_000


class Recording:
    """One recording in the queue: an event of Metal's that is recorded once.

    By torch's functions for events: the class ``torch.mps.Event`` also asks, from 2.15 on, which stream is the current
    one, and nobody here uses any other than the first.
    """

    def __init__(self, timing: bool) -> None:
        import torch

        self._release, self._id = torch._C._mps_releaseEvent, 0
        self._id = torch._C._mps_acquireEvent(timing)
        torch._C._mps_recordEvent(self._id)
        self.moment = time.monotonic_ns()
        #: Milliseconds after the anchor, on the GPU's clock; ``None`` before it was asked and where it does not say.
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
        """Return the milliseconds after another. Call it once, when it has signalled: a second call does not return."""
        import torch

        return float(torch._C._mps_elapsedTimeOfEvents(start._id, self._id))


class MpsStreams(HostStreams):
    """Streams whose waiting also waits for the queue."""

    def __init__(self, device_count: int, cycles_per_second: Callable[[int], float]) -> None:
        super().__init__(device_count, cycles_per_second)
        # They are held while the interpreter runs: a signal's handler, on the same thread, may ask again meanwhile.
        self._metal_lock = threading.RLock()
        #: The start of all times: recorded before every timed event, and never at the end of a measurement.
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
        """Wait for all work of a stream: for that of the queue."""
        super().synchronize(stream_id, device)
        self._drain()

    def synchronize_device(self, device: int) -> None:
        super().synchronize_device(device)
        self._drain()

    def _idle(self) -> bool:
        """Return whether the queue has run dry: an event that is recorded now signals within a moment.

        One that has not is kept, and while it has not signalled nothing is added: who asks in a loop does not fill the
        queue. Once it has, work may have been added since, so that another has to tell.
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

    def _drain(self) -> None:
        """Wait for all that is in the queue. torch's own way to do that holds the interpreter: it is last."""
        import torch

        _signals(Recording(timing=False), _PATIENCE_S)
        torch._C._mps_deviceSynchronize()

    def _arrives(self, recording: Recording) -> bool:
        """Wait for a signal; false where there is none though all work is done."""
        if _signals(recording, _PATIENCE_S):
            return True
        self._drain()
        return _signals(recording, _GRACE_S)

    # ------------------------------------------------------------------- events
    def _record(self, event: EventState, state: StreamState) -> None:
        """Let the event complete when all work now in the queue has."""
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
        """Record what all times are measured from; where that fails the host's clock tells them."""
        with self._metal_lock:
            if self._anchored:
                return
            self._anchored = True  # also where it fails: to find out takes as long as the patience lasts
            anchor = Recording(timing=True)
            if self._arrives(anchor):
                # Returns when its time has been noted, by refusing: it is not after itself.
                with contextlib.suppress(RuntimeError):
                    anchor.since(anchor)
                self._anchor = anchor

    def _keep(self, recording: Recording) -> None:
        """Hold on to a timed event, whatever becomes of the program's, until its time has been noted."""
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
                # It waits for the whole queue with the interpreter held: there is to be nothing to wait for.
                self._drain()
                with contextlib.suppress(RuntimeError):
                    recording.milliseconds = recording.since(self._anchor)
            return recording.milliseconds


def _signals(recording: Recording, patience: float) -> bool:
    """Return whether a signal arrives before the patience is at an end."""
    last, pause = time.monotonic() + patience, _SHORTEST_S
    while not recording.signalled():
        if time.monotonic() > last:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_S)
    return True
