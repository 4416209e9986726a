"""Streams and events of the native device, which torch's own C++ (autograd, copies) uses too."""

from __future__ import annotations

from ...native.interface import Native
from ..errors import cuda_error, invalid_ordinal
from ..streams import DEFAULT_STREAM, LEAST_PRIORITY, EventState, Streams, StreamState


class NativeStreams(Streams):
    """Streams over the native module."""

    def __init__(self, native: Native, device_count: int) -> None:
        self._native = native
        self._device_count = device_count

    def _valid(self, device: int) -> int:
        if not 0 <= device < self._device_count:
            raise invalid_ordinal()
        return device

    # ------------------------------------------------------------------- making
    def new(self, device: int, priority: int = 0) -> int:
        return self._native.stream_new(self._valid(device), priority)

    def external(self, device: int, handle: int) -> int:
        self._valid(device)
        return handle

    def state(self, stream_id: int, device: int) -> StreamState:
        """Return the state of a stream."""
        self._valid(device)
        if stream_id == DEFAULT_STREAM:
            return StreamState(device, DEFAULT_STREAM, LEAST_PRIORITY, handle=0)
        native = self._native
        return StreamState(
            device, stream_id, native.stream_priority(device, stream_id), native.stream_handle(device, stream_id)
        )

    # ------------------------------------------------------------------ current
    def current(self, device: int) -> int:
        return self._native.stream_current(self._valid(device))

    def set_current(self, stream_id: int, device: int) -> None:
        self._native.stream_set(self._valid(device), stream_id)

    # ------------------------------------------------------------------ waiting
    def sleep(self, cycles: int, device: int) -> None:
        self._native.sleep(max(0, cycles), self._valid(device))

    def query(self, stream_id: int, device: int) -> bool:
        return self._native.stream_query(self._valid(device), stream_id)

    def synchronize(self, stream_id: int, device: int) -> None:
        self._native.stream_synchronize(self._valid(device), stream_id)

    def synchronize_device(self, device: int) -> None:
        self._native.synchronize(self._valid(device))

    def watch_synchronization(self, mode: int) -> None:
        """Make the kernels report synchronization."""
        self._native.watch_synchronization(mode)

    def is_capturing(self, stream_id: int, device: int) -> bool:
        return self._native.stream_capture_status(self._valid(device), stream_id) != 0

    # ------------------------------------------------------------------- events
    def event(self, timing: bool) -> EventState:
        return EventState(timing, native=self._native.Event())

    def interprocess_event(self, timing: bool) -> EventState:
        return EventState(timing, native=self._native.Event(interprocess=True))

    def event_name(self, event: EventState) -> bytes:
        """Return the name by which other processes open it."""
        name: bytes = event.native.name
        return name

    def open_event(self, name: bytes, device: int) -> EventState:
        """Return another process's event: its time is in shared memory, on a clock that both processes have."""
        native = self._native.Event.open(name)
        if isinstance(native, int):
            raise cuda_error(native)
        return EventState(False, self._valid(device), native.handle, native=native)

    def create_event(self, event: EventState, device: int) -> None:
        if not event.handle:
            event.device = self._valid(device)
            event.handle = event.native.handle

    def record(self, event: EventState, stream_id: int, device: int) -> None:
        self.create_event(event, device)
        if event.device != device:
            raise RuntimeError(f"Event device {event.device} does not match recording stream's device {device}.")
        if event.native.name:
            self._run_earlier_work(stream_id, device)
        event.native.record(device, stream_id, event.external)
        event.recorded = True

    def _run_earlier_work(self, stream_id: int, device: int) -> None:
        """Run what was issued to a stream and runs later: another process sees only when the event is recorded."""
        current = self._native.stream_set(device, stream_id)
        try:
            self._native.run_other_work(device)
        finally:
            self._native.stream_set(device, current)

    def wait(self, event: EventState, stream_id: int, device: int) -> None:
        event.native.block(self._valid(device), stream_id, event.external)

    def query_event(self, event: EventState) -> bool:
        return bool(event.native.query())

    def synchronize_event(self, event: EventState) -> None:
        event.native.synchronize()

    def elapsed_ms(self, start: EventState, end: EventState) -> float:
        if start.device != end.device:
            raise cuda_error(400)
        elapsed: float = start.native.elapsed_time(end.native)
        return elapsed
