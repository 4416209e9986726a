"""Stream and event objects over a driver's streams: real subclasses of torch's own C types.

torch's C methods on streams and events of type ``cuda`` need a CUDA guard, which a CPU build of torch lacks; these
classes keep the C types (identity, equality, hashing, pickling refusals) and call the driver in every method.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._C

from . import active
from .errors import cuda_error
from .streams import EventState, StreamState

CUDA_TYPE = 1  # c10::DeviceType::CUDA

#: torch's own types; while a driver is installed, torch's names refer to the classes below.
CStream: Any = torch._C.Stream
CEvent: Any = torch._C.Event


class StreamMethods:
    """Methods of a stream, for objects that have torch.Stream's ``stream_id`` and ``device_index``."""

    stream_id: int
    device_index: int
    _entered: list[tuple[int, int, int]]

    def _state(self) -> StreamState:
        return active().streams.state(self.stream_id, self.device_index)

    @property
    def native_handle(self) -> int:
        """Return the stream's handle as an integer."""
        return self._state().handle

    def is_capturing(self) -> bool:
        """Return whether a graph is being captured on this stream."""
        return active().streams.is_capturing(self.stream_id, self.device_index)

    def query(self) -> bool:
        """Return whether all work given to this stream is done."""
        return active().streams.query(self.stream_id, self.device_index)

    def synchronize(self) -> None:
        """Wait for all work given to this stream."""
        active().streams.synchronize(self.stream_id, self.device_index)

    def wait_event(self, event: Any) -> None:
        """Hold work given to this stream from now on until the event completes."""
        event.wait(self)

    def wait_stream(self, stream: Any) -> None:
        """Hold work given to this stream from now on until all work now in the other stream is done."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one unless one is given, in this stream."""
        if event is None:
            event = GenericEvent._make()
        event.record(self)
        return event

    def __enter__(self) -> Any:
        driver = active()
        before = driver.current_device()
        outer = self.__dict__.setdefault("_entered", [])
        outer.append((before, driver.streams.current(before), driver.streams.current(self.device_index)))
        driver.set_device(self.device_index)
        driver.streams.set_current(self.stream_id, self.device_index)
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        driver = active()
        device, stream, own = self._entered.pop()
        driver.streams.set_current(own, self.device_index)
        driver.streams.set_current(stream, device)
        driver.set_device(device)


def stream_of(stream: Any) -> tuple[int, int]:
    """Return ``(stream id, device index)`` of a stream, the current one for none; or raise CUDA's error."""
    if stream is None:
        driver = active()
        device = driver.current_device()
        return driver.streams.current(device), device
    if not isinstance(stream, CStream):
        raise RuntimeError("expected stream to be a torch.Stream or torch.cuda.Stream object")
    return stream.stream_id, stream.device_index


class EventMethods:
    """Methods of an event, over an :class:`EventState`."""

    _event: EventState
    _interprocess: bool

    @property
    def event_id(self) -> int:
        """Return the event's handle as an integer, 0 before it is recorded."""
        return self._event.handle

    def record(self, stream: Any = None) -> None:
        """Record the event in a stream, the current one unless one is given."""
        where = stream_of(stream)
        if self._interprocess and self._event.timing:
            raise cuda_error(1)
        active().streams.record(self._event, *where)

    def wait(self, stream: Any = None) -> None:
        """Hold work given to a stream from now on until the event completes."""
        active().streams.wait(self._event, *stream_of(stream))

    def query(self) -> bool:
        """Return whether all work captured by the event is done; True for an event never recorded."""
        return active().streams.query_event(self._event)

    def synchronize(self) -> None:
        """Wait for the event."""
        active().streams.synchronize_event(self._event)

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to another."""
        other = getattr(end_event, "_event", None)
        if not isinstance(other, EventState):
            raise RuntimeError("expected other to be a torch.cuda.Event object")
        if not (self._event.timing and other.timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self._event.recorded and other.recorded):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        streams = active().streams
        if not (streams.query_event(self._event) and streams.query_event(other)):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return streams.elapsed_ms(self._event, other)


class _AsC(type):
    """The type of a class that passes every check for torch's C type."""

    _c_type: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._c_type)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls._c_type)


class _StreamMeta(_AsC):
    """Calls of ``torch.Stream``: CUDA requests get a driver's stream."""

    _c_type = CStream

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device", args[0] if args else None)
        if "stream_id" in kwargs or not is_cuda_request(device):
            made = CStream(*args, **kwargs)
            if made.device_type != CUDA_TYPE:
                return made
            return GenericStream._wrap(made.stream_id, made.device_index)
        driver = active()
        index = requested_index(device)
        priority = kwargs.get("priority", args[1] if len(args) > 1 else 0)
        return GenericStream._wrap(driver.streams.new(index, priority), index)


def is_cuda_request(device: Any) -> bool:
    """Return whether a device argument means the CUDA device: by name, or by default as the accelerator."""
    if device is None or isinstance(device, int):
        return True
    return torch.device(device).type == "cuda"


def requested_index(device: Any) -> int:
    """Return the device index of a request: the one it names, or else the current device."""
    index = device if isinstance(device, int) or device is None else torch.device(device).index
    return active().current_device() if index is None else active().check(index)


class GenericStream(StreamMethods, CStream, metaclass=_StreamMeta):  # type: ignore[misc]
    """``torch.Stream`` of type ``cuda``."""

    @classmethod
    def _wrap(cls, stream_id: int, device: int) -> GenericStream:
        made: GenericStream = CStream.__new__(cls, stream_id=stream_id, device_index=device, device_type=CUDA_TYPE)
        return made


class _EventMeta(_AsC):
    """Calls of ``torch.Event``: CUDA requests get a driver's event."""

    _c_type = CEvent

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device", args[0] if args else None)
        if not is_cuda_request(device):
            return CEvent(*args, **kwargs)
        # A CPU event refuses unknown keywords, and knows whether this release's events record times by default.
        known = CEvent("cpu", **{key: value for key, value in kwargs.items() if key != "device"})
        return GenericEvent._make(timing="event_flag=1" in repr(known), interprocess=bool(kwargs.get("interprocess")))


class GenericEvent(EventMethods, CEvent, metaclass=_EventMeta):  # type: ignore[misc]
    """``torch.Event`` of type ``cuda``."""

    @classmethod
    def _make(cls, timing: bool = False, interprocess: bool = False) -> GenericEvent:
        self: GenericEvent = CEvent.__new__(cls, "cpu")
        self._event = active().streams.event(timing)
        self._interprocess = interprocess
        return self

    @property
    def device(self) -> torch.device:
        """Return the CUDA device; without an index until the event is recorded."""
        index = self._event.device
        return torch.device("cuda") if index is None else torch.device("cuda", index)

    def __repr__(self) -> str:
        index = -1 if self._event.device is None else self._event.device
        return (
            f"torch.Event device_type=cuda, device_index={index}, event_flag={int(self._event.timing)}, "
            f"event_id={self.event_id}"
        )


for _generic, _name in ((GenericStream, "Stream"), (GenericEvent, "Event")):
    _generic.__name__ = _generic.__qualname__ = _name
    _generic.__module__ = "torch"
