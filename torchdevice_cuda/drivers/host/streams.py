"""Streams and events on the host's clock.

The host computes eagerly: when a call returns its work is done, unless the program made the stream itself wait
(``torch.cuda._sleep``). So the time at which a stream becomes idle describes it completely, the time at which it
completes describes an event, and CUDA's ordering rules are arithmetic on these times: recording copies the stream's
time, waiting raises the waiter's time to the event's.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from ..errors import cuda_error, invalid_ordinal
from ..recording.captures import Captures, CapturingStreams
from ..streams import DEFAULT_STREAM, GREATEST_PRIORITY, LEAST_PRIORITY, EventState, StreamState

POOL_SIZE = 32  # CUDA has 32 streams per priority and device, and then reuses them

_NS_PER_S = 1_000_000_000


def pool_stream_id(priority: int, index: int) -> int:
    """Return CUDA's id of a pooled stream: slot, then the priority's number, then a bit for "from a pool"."""
    return index << 5 | (1 - priority) << 1 | 1


def _is_pool_id(stream_id: int) -> bool:
    kind = stream_id >> 1 & 0xF
    return bool(stream_id & 1) and 1 <= kind <= 1 - GREATEST_PRIORITY and stream_id >> 5 < POOL_SIZE


class HostStreams(CapturingStreams):
    """Streams whose work is done when its call returns; thread-safe."""

    def __init__(self, device_count: int, cycles_per_second: Callable[[int], float]) -> None:
        self._device_count = device_count
        #: the graphs that are being captured on these streams
        self.captures = Captures()
        self._cycles_per_second = cycles_per_second
        self._lock = threading.RLock()  # a signal handler may call again, on the same thread
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
        """Adopt an external stream; as on CUDA, its id is its handle. A known handle shares that timeline."""
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
        self._valid(device)
        current: dict[int, int] = getattr(self._thread, "current", {})
        chosen = current.get(device, DEFAULT_STREAM)
        if chosen == DEFAULT_STREAM and self.captures.underway:
            return self.captures.stream_here(device)
        return chosen

    def set_current(self, stream_id: int, device: int) -> None:
        self.state(stream_id, device)
        if self.captures.left:
            self.captures.tidy()
        current: dict[int, int] | None = getattr(self._thread, "current", None)
        if current is None:
            current = self._thread.current = {}
        current[device] = stream_id

    # ------------------------------------------------------------------ waiting
    def sleep(self, cycles: int, device: int) -> None:
        state = self.state(self.current(device), device)
        if self.captures.underway and (capture := self.captures.of(state)) is not None:
            capture.add("sleep", lambda: self.sleep(cycles, device))
            return
        busy = int(max(0, cycles) / self._cycles_per_second(device) * _NS_PER_S)
        with self._lock:
            state.idle_at = max(state.idle_at, time.monotonic_ns()) + busy

    def query(self, stream_id: int, device: int) -> bool:
        state = self.state(stream_id, device)
        if self.captures.underway:
            self.captures.refuse_waiting_for(state)
        return state.idle_at <= time.monotonic_ns()

    def synchronize(self, stream_id: int, device: int) -> None:
        state = self.state(stream_id, device)
        if self.captures.underway:
            self.captures.refuse_waiting_for(state)
        _sleep_until(state.idle_at)

    def synchronize_device(self, device: int) -> None:
        self._valid(device)
        if self.captures.underway:
            self.captures.refuse_waiting_for_device(device)
        if self.elsewhere is not None:
            self.elsewhere()
        with self._lock:
            states = [state for (index, _), state in self._by_id.items() if index == device]
        _sleep_until(max(state.idle_at for state in states))

    def is_capturing(self, stream_id: int, device: int) -> bool:
        state = self.state(stream_id, device)
        return bool(self.captures.underway) and self.captures.of(state) is not None

    # ------------------------------------------------------------------- events
    def event(self, timing: bool) -> EventState:
        return EventState(timing)

    def create_event(self, event: EventState, device: int) -> None:
        if not event.handle:
            event.device = self._valid(device)
            with self._lock:
                event.handle = next(self._handles)

    def record(self, event: EventState, stream_id: int, device: int) -> None:
        self.create_event(event, device)
        if event.device != device:
            raise RuntimeError(f"Event device {event.device} does not match recording stream's device {device}.")
        state = self.state(stream_id, device)
        event.recorded = True
        if not self._is_captured("an event", event, state, self.record, self.captures.record):
            event.captured = None
            self._record(event, state)

    def _record(self, event: EventState, state: StreamState) -> None:
        """Record an event outside of a capture."""
        event.completes_at = max(state.idle_at, time.monotonic_ns())

    def wait(self, event: EventState, stream_id: int, device: int) -> None:
        state = self.state(stream_id, device)
        if not event.handle or self._is_captured("wait for an event", event, state, self.wait, self.captures.wait):
            return
        with self._lock:
            state.idle_at = max(state.idle_at, event.completes_at)

    def _is_captured(
        self,
        name: str,
        event: EventState,
        state: StreamState,
        again: Callable[[EventState, int, int], None],
        note: Callable[[EventState, StreamState], bool],
    ) -> bool:
        """Return whether an action on an event belongs to a capture: for ordering, or as an external event."""
        if not self.captures.underway and event.captured is None:
            return False
        capture = self.captures.of(state)
        if not event.external or capture is None:
            return note(event, state)
        device = state.device
        capture.add(name, lambda: again(event, self.current(device), device))
        return True

    def query_event(self, event: EventState) -> bool:
        if self.captures.underway or event.captured is not None:
            self.captures.refuse_asking(event)
        return event.completes_at <= time.monotonic_ns()

    def synchronize_event(self, event: EventState) -> None:
        if self.captures.underway or event.captured is not None:
            self.captures.refuse_asking(event)
        _sleep_until(event.completes_at)

    def elapsed_ms(self, start: EventState, end: EventState) -> float:
        if start.device != end.device:
            raise cuda_error(400)
        return (end.completes_at - start.completes_at) / 1e6


def _sleep_until(moment: int) -> None:
    while (left := moment - time.monotonic_ns()) > 0:
        time.sleep(left / _NS_PER_S)
