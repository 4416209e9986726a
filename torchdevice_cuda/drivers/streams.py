"""Streams and events of a driver's devices: what the others may ask of them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .errors import cuda_error

if TYPE_CHECKING:
    from .recording.captures import Capture, Clock

DEFAULT_STREAM = 0
LEAST_PRIORITY, GREATEST_PRIORITY = 0, -3
IPC_HANDLE_SIZE = 64


@dataclasses.dataclass
class StreamState:
    """One stream of one device."""

    device: int
    stream_id: int
    priority: int
    handle: int
    idle_at: int = 0  # nanoseconds on the monotonic clock


@dataclasses.dataclass
class EventState:
    """One event; ``device`` is ``None`` until it is recorded."""

    timing: bool
    device: int | None = None
    handle: int = 0
    completes_at: int = 0
    recorded: bool = False
    #: the device's own event behind it, for drivers whose devices have some
    native: Any = None
    #: the stream was asleep when the event was recorded: the host's clock tells its moment, whatever the device says
    held_by_host: bool = False
    #: a graph that is captured records it, and waits for it, whenever it is replayed
    external: bool = False
    #: the capture that it was last recorded in, and where in that
    captured: tuple[Capture, Clock] | None = None


class Streams(abc.ABC):
    """The streams of a driver's devices, with a current one per thread and device. Streams are named by their ids."""

    # ------------------------------------------------------------------- making
    @abc.abstractmethod
    def new(self, device: int, priority: int = 0) -> int:
        """The next stream of the device's pool for this priority; its id."""

    @abc.abstractmethod
    def external(self, device: int, handle: int) -> int:
        """Adopt a stream made elsewhere; as on CUDA, its id is its handle."""

    @abc.abstractmethod
    def state(self, stream_id: int, device: int) -> StreamState:
        """The stream with this id; ids of the pool exist before anyone asked for them, as on CUDA."""

    # ------------------------------------------------------------------ current
    @abc.abstractmethod
    def current(self, device: int) -> int:
        """The calling thread's current stream on a device."""

    @abc.abstractmethod
    def set_current(self, stream_id: int, device: int) -> None:
        """Make a stream the calling thread's current one on its device."""

    # ------------------------------------------------------------------ waiting
    #: Waits for work of a device that is in none of these streams, such as collectives; set by whoever begins some.
    elsewhere: Callable[[], None] | None = None

    @abc.abstractmethod
    def sleep(self, cycles: int, device: int) -> None:
        """Keep the current stream busy for this many device cycles, without holding up the caller."""

    @abc.abstractmethod
    def query(self, stream_id: int, device: int) -> bool:
        """Whether all work of a stream is done."""

    @abc.abstractmethod
    def synchronize(self, stream_id: int, device: int) -> None:
        """Wait for all work of a stream."""

    @abc.abstractmethod
    def synchronize_device(self, device: int) -> None:
        """Wait for all work of all streams of a device."""

    def watch_synchronization(self, mode: int) -> None:  # noqa: B027 (only a device of our own can tell)
        """Have operators that wait for the device, or would on CUDA, warn (1) or fail (2); 0 ends it."""

    @abc.abstractmethod
    def is_capturing(self, stream_id: int, device: int) -> bool:
        """Whether a graph is being captured on a stream."""

    # ------------------------------------------------------------------- events
    @abc.abstractmethod
    def event(self, timing: bool) -> EventState:
        """A new event, not yet recorded. The methods below are given only events that this one made."""

    def interprocess_event(self, timing: bool) -> EventState:
        """A new event that other processes may open, where the driver's events can be."""
        return self.event(timing)

    def event_name(self, event: EventState) -> bytes:
        """The name by which other processes open an event that has its handle."""
        return event.handle.to_bytes(IPC_HANDLE_SIZE, "little")

    def open_event(self, name: bytes, device: int) -> EventState:
        """Another process's event. Here it completes on that process's clock, which this one cannot watch."""
        raise cuda_error(205)

    @abc.abstractmethod
    def create_event(self, event: EventState, device: int) -> None:
        """Give an event its device and handle, as the first record (or an IPC handle) does."""

    @abc.abstractmethod
    def record(self, event: EventState, stream_id: int, device: int) -> None:
        """Let the event complete when all work now in the stream has."""

    @abc.abstractmethod
    def wait(self, event: EventState, stream_id: int, device: int) -> None:
        """Hold later work of the stream until the event completes; no wait for an event never recorded."""

    @abc.abstractmethod
    def query_event(self, event: EventState) -> bool:
        """Whether the event has completed; an event never recorded has."""

    @abc.abstractmethod
    def synchronize_event(self, event: EventState) -> None:
        """Wait for the event."""

    @abc.abstractmethod
    def elapsed_ms(self, start: EventState, end: EventState) -> float:
        """Milliseconds between two completed events of one device."""
