"""Streams and events on the host's clock.

The host computes eagerly: by the time a call returns its work is done, unless the program asked the stream itself to
wait (``torch.cuda._sleep``). A stream is therefore fully described by the moment it falls idle, an event by the moment
it completes, and CUDA's ordering rules become arithmetic on those moments: recording takes the stream's moment, waiting
raises the waiter's to the event's.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from ..errors import cuda_error, invalid_ordinal
from ..streams import DEFAULT_STREAM, GREATEST_PRIORITY, LEAST_PRIORITY, EventState, Streams, StreamState

POOL_SIZE = 32  # CUDA hands out 32 streams per priority and device, then starts over

_NS_PER_S = 1_000_000_000


def pool_stream_id(priority: int, index: int) -> int:
    """CUDA's numbering of pooled streams: slot, then the priority's number, then a bit for "from a pool"."""
    return index << 5 | (1 - priority) << 1 | 1


def _is_pool_id(stream_id: int) -> bool:
    kind = stream_id >> 1 & 0xF
    return bool(stream_id & 1) and 1 <= kind <= 1 - GREATEST_PRIORITY and stream_id >> 5 < POOL_SIZE


class HostStreams(Streams):
    """Streams whose work is done when the call that gave it returns; thread-safe."""

    def __init__(self, device_count: int, cycles_per_second: Callable[[int], float]) -> None:
        self._device_count = device_count
        self._cycles_per_second = cycles_per_second
        self._lock = threading.RLock()  # a handler of a signal may ask again, on the same thread
        self._thread = threading.local()
        self._handles = itertools.count(0x5D_0000_1000, 0x40)
        self._next: dict[tuple[int, int], int] = {}
        self._by_id: dict[tuple[int, int], StreamState] = {}
        self._by_handle: dict[tuple[int, int], StreamState] = {}
        for device in range(device_count):
            self._add(StreamState(device, DEFAULT_STREAM, LEAST_PRIORITY, handle=0))

    def _add(self, state: StreamState) -> StreamState:
        self._by_id[state.device, state.stream_id] = state
        self._by_handle.setdefault((state.device, state.handle), state)
        return state

    def _valid(self, device: int) -> int:
        if not 0 <= device < self._device_count:
            raise invalid_ordinal()
        return device

    # ------------------------------------------------------------------- making
    def new(self, device: int, priority: int = 0) -> int:
        """The next stream of the device's pool for this priority; its id."""
        self._valid(device)
        priority = max(GREATEST_PRIORITY, min(LEAST_PRIORITY, priority))
        with self._lock:
            index = self._next.get((device, priority), 0)
            self._next[device, priority] = (index + 1) % POOL_SIZE
            stream_id = pool_stream_id(priority, index)
            if (device, stream_id) not in self._by_id:
                self._add(StreamState(device, stream_id, priority, next(self._handles)))
        return stream_id

    def external(self, device: int, handle: int) -> int:
        """Adopt a stream made elsewhere; as on CUDA, its id is its handle. A known handle shares that timeline."""
        self._valid(device)
        with self._lock:
            if (device, handle) not in self._by_id:
                known = self._by_handle.get((device, handle))
                if known is None:
                    self._add(StreamState(device, handle, LEAST_PRIORITY, handle))
                else:
                    self._by_id[device, handle] = known
        return handle

    def state(self, stream_id: int, device: int) -> StreamState:
        """The stream with this id; ids of the pool exist before anyone asked for them, as on CUDA."""
        state = self._by_id.get((device, stream_id))
        if state is not None:
            return state
        self._valid(device)
        with self._lock:
            if _is_pool_id(stream_id):
                handle, priority = next(self._handles), 1 - (stream_id >> 1 & 0xF)
            else:
                handle, priority = stream_id, LEAST_PRIORITY
            return self._add(StreamState(device, stream_id, priority, handle))

    # ------------------------------------------------------------------ current
    def current(self, device: int) -> int:
        """The calling thread's current stream on a device."""
        self._valid(device)
        current: dict[int, int] = getattr(self._thread, "current", {})
        return current.get(device, DEFAULT_STREAM)

    def set_current(self, stream_id: int, device: int) -> None:
        """Make a stream the calling thread's current one on its device."""
        self.state(stream_id, device)
        current: dict[int, int] | None = getattr(self._thread, "current", None)
        if current is None:
            current = self._thread.current = {}
        current[device] = stream_id

    # ------------------------------------------------------------------ waiting
    def sleep(self, cycles: int, device: int) -> None:
        """Keep the current stream busy for this many device cycles, without holding up the caller."""
        state = self.state(self.current(device), device)
        busy = int(max(0, cycles) / self._cycles_per_second(device) * _NS_PER_S)
        with self._lock:
            state.idle_at = max(state.idle_at, time.monotonic_ns()) + busy

    def query(self, stream_id: int, device: int) -> bool:
        """Whether all work of a stream is done."""
        return self.state(stream_id, device).idle_at <= time.monotonic_ns()

    def synchronize(self, stream_id: int, device: int) -> None:
        """Wait for all work of a stream."""
        _sleep_until(self.state(stream_id, device).idle_at)

    def synchronize_device(self, device: int) -> None:
        """Wait for all work of all streams of a device."""
        self._valid(device)
        if self.elsewhere is not None:
            self.elsewhere()
        with self._lock:
            states = [state for (index, _), state in self._by_id.items() if index == device]
        _sleep_until(max(state.idle_at for state in states))

    def is_capturing(self, stream_id: int, device: int) -> bool:
        """Whether a graph is being captured on a stream."""
        self.state(stream_id, device)
        return False

    # ------------------------------------------------------------------- events
    def event(self, timing: bool) -> EventState:
        """A new event, not yet recorded."""
        return EventState(timing)

    def create_event(self, event: EventState, device: int) -> None:
        """Give an event its device and handle, as the first record (or an IPC handle) does."""
        if not event.handle:
            event.device = self._valid(device)
            with self._lock:
                event.handle = next(self._handles)

    def record(self, event: EventState, stream_id: int, device: int) -> None:
        """Let the event complete when all work now in the stream has."""
        self.create_event(event, device)
        if event.device != device:
            raise RuntimeError(f"Event device {event.device} does not match recording stream's device {device}.")
        event.completes_at = max(self.state(stream_id, device).idle_at, time.monotonic_ns())
        event.recorded = True

    def wait(self, event: EventState, stream_id: int, device: int) -> None:
        """Hold later work of the stream until the event completes; no wait for an event never recorded."""
        state = self.state(stream_id, device)
        with self._lock:
            state.idle_at = max(state.idle_at, event.completes_at)

    def query_event(self, event: EventState) -> bool:
        """Whether the event has completed; an event never recorded has."""
        return event.completes_at <= time.monotonic_ns()

    def synchronize_event(self, event: EventState) -> None:
        """Wait for the event."""
        _sleep_until(event.completes_at)

    def elapsed_ms(self, start: EventState, end: EventState) -> float:
        """Milliseconds between two completed events of one device."""
        if start.device != end.device:
            raise cuda_error(400)
        return (end.completes_at - start.completes_at) / 1e6


def _sleep_until(moment: int) -> None:
    while (left := moment - time.monotonic_ns()) > 0:
        time.sleep(left / _NS_PER_S)
