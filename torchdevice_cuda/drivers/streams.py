"""The streams and events of a driver's devices: the interface."""

from __future__ import annotations

import abc
import dataclasses
import itertools
import threading
from collections.abc import Callable
from typing import Any

from .errors import cuda_error

DEFAULT_STREAM = 0
#: CUDA's words for a wait that the program asked to be told of.
SYNCHRONIZES = "called a synchronizing CUDA operation"
LEAST_PRIORITY, GREATEST_PRIORITY = 0, -3
IPC_HANDLE_SIZE = 64
#: Threads whose unsafe calls a capture refuses.
GLOBAL, THREAD_LOCAL, RELAXED = range(3)

#: A stream's identity, whatever id it has.
Key = tuple[int, int]
#: How much of every stream's work precedes the next work: for forks and joins.
Clock = dict[Key, int]

_capture_ids = itertools.count(1)


@dataclasses.dataclass
class StreamState:
    """One stream of one device."""

    device: int
    stream_id: int
    priority: int
    handle: int
    idle_at: int = 0  # nanoseconds on the monotonic clock

    @property
    def key(self) -> Key:
        """Identify the stream among those of all devices."""
        return self.device, self.handle


class Capture:
    """One capture: its streams, and their order."""

    def __init__(self, origin: StreamState, mode: int) -> None:
        self.id = next(_capture_ids)
        self.origin = origin
        self.mode = mode
        self.thread = threading.get_ident()
        self.broken = self.ended = False
        self.streams: dict[Key, Clock] = {origin.key: {}}
        #: adds work that is not an operator to the replay: its name, and the function
        self.add: Callable[[str, Callable[[], object]], None] = lambda name, work: None
        #: stops observing the calling thread's operators
        self.leave: Callable[[], None] = lambda: None
        #: whether the calling thread computes for the capturing thread, as autograd's threads do
        self.is_handed_on: Callable[[], bool] = lambda: False

    def minds_this_thread(self) -> bool:
        """Return whether the capture refuses unsafe calls of the calling thread."""
        return self.mode == GLOBAL or (self.mode == THREAD_LOCAL and self.thread == threading.get_ident())

    def takes(self, stream: StreamState) -> bool:
        """Return whether a stream takes part."""
        return stream.key in self.streams

    def fail(self, code: int) -> Exception:
        """Return the error of a call that invalidates the capture."""
        self.broken = True
        return cuda_error(code)

    def count(self, stream: StreamState) -> None:
        """Count work given to a stream that takes part."""
        clock = self.streams.setdefault(stream.key, {})
        clock[stream.key] = clock.get(stream.key, 0) + 1

    def unjoined(self) -> bool:
        """Return whether a stream has work that the first stream has not joined."""
        end = self.streams[self.origin.key]
        return any(clock.get(key, 0) > end.get(key, 0) for key, clock in self.streams.items())


@dataclasses.dataclass
class EventState:
    """One event; ``device`` is ``None`` until it is recorded."""

    timing: bool
    device: int | None = None
    handle: int = 0
    completes_at: int = 0
    recorded: bool = False
    #: the device's own event behind it, for drivers whose devices have events
    native: Any = None
    #: whether the stream slept when the event was recorded: the host's clock then determines its time
    held_by_host: bool = False
    #: whether each replay of a graph records it and waits for it
    external: bool = False
    #: the capture that it was last recorded in, and its position there
    captured: tuple[Capture, Clock] | None = None


class Streams(abc.ABC):
    """The streams of a driver's devices, with a current one per thread and device. Streams are named by their ids."""

    # ------------------------------------------------------------------- making
    @abc.abstractmethod
    def new(self, device: int, priority: int = 0) -> int:
        """Return the id of the next stream of the device's pool for this priority."""

    @abc.abstractmethod
    def external(self, device: int, handle: int) -> int:
        """Adopt an external stream; as on CUDA, its id is its handle."""

    @abc.abstractmethod
    def state(self, stream_id: int, device: int) -> StreamState:
        """Return the stream with this id; ids of the pool are valid before they are requested, as on CUDA."""

    # ------------------------------------------------------------------ current
    @abc.abstractmethod
    def current(self, device: int) -> int:
        """Return the calling thread's current stream on a device."""

    @abc.abstractmethod
    def set_current(self, stream_id: int, device: int) -> None:
        """Make a stream the calling thread's current one on its device."""

    # ------------------------------------------------------------------ waiting
    #: Waits for a device's work outside these streams, such as collectives; set by the code that begins it.
    elsewhere: Callable[[], None] | None = None

    @abc.abstractmethod
    def sleep(self, cycles: int, device: int) -> None:
        """Keep the current stream busy for this many device cycles, without blocking the caller."""

    @abc.abstractmethod
    def query(self, stream_id: int, device: int) -> bool:
        """Return whether all work of a stream is done."""

    @abc.abstractmethod
    def synchronize(self, stream_id: int, device: int) -> None:
        """Wait for all work of a stream."""

    @abc.abstractmethod
    def synchronize_device(self, device: int) -> None:
        """Wait for all work of all streams of a device."""

    #: Reports operators that wait, by the mode; set by the code that sees operators.
    watcher: Callable[[int], None] | None = None
    #: The mode in force.
    watched = 0

    def watch_synchronization(self, mode: int) -> None:
        """Make operators that wait for the device, or would on CUDA, warn (1) or fail (2); 0 ends it."""
        self.watched = mode
        if self.watcher is not None:
            self.watcher(mode)

    @abc.abstractmethod
    def is_capturing(self, stream_id: int, device: int) -> bool:
        """Return whether a graph is being captured on a stream."""

    # ------------------------------------------------------------------- events
    @abc.abstractmethod
    def event(self, timing: bool) -> EventState:
        """Return a new event, not yet recorded. The methods below take only events that this one created."""

    def interprocess_event(self, timing: bool) -> EventState:
        """Return a new event that other processes may open, if the driver supports it."""
        return self.event(timing)

    def event_name(self, event: EventState) -> bytes:
        """Return the name by which other processes open an event that has its handle."""
        return event.handle.to_bytes(IPC_HANDLE_SIZE, "little")

    def open_event(self, name: bytes, device: int) -> EventState:
        """Return another process's event. Here it completes on that process's clock, which this one cannot read."""
        raise cuda_error(205)

    @abc.abstractmethod
    def create_event(self, event: EventState, device: int) -> None:
        """Give an event its device and handle, as the first record (or an IPC handle) does."""

    @abc.abstractmethod
    def record(self, event: EventState, stream_id: int, device: int) -> None:
        """Make the event complete when all work now in the stream has."""

    @abc.abstractmethod
    def wait(self, event: EventState, stream_id: int, device: int) -> None:
        """Delay later work of the stream until the event completes; not for an event that was never recorded."""

    @abc.abstractmethod
    def query_event(self, event: EventState) -> bool:
        """Return whether the event has completed; one that was never recorded has."""

    @abc.abstractmethod
    def synchronize_event(self, event: EventState) -> None:
        """Wait for the event."""

    @abc.abstractmethod
    def elapsed_ms(self, start: EventState, end: EventState) -> float:
        """Return the milliseconds between two completed events of one device."""
