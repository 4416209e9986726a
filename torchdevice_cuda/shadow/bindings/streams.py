"""Streams and events: the base classes of ``torch.cuda.Stream`` and ``torch.cuda.Event``, and raw stream handles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

import torch
import torch._C

from ..._compat import wraps_null_streams
from ...drivers import active
from ...drivers.errors import cuda_error
from ...drivers.handles import CUDA_TYPE, EventMethods, StreamMethods
from ...drivers.streams import GREATEST_PRIORITY, IPC_HANDLE_SIZE, LEAST_PRIORITY
from .device import synchronizing
from .pybind import define

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["_CudaEventBase", "_CudaStreamBase"]

_NEW_ARGUMENTS = ("priority", "stream_id", "device_index", "device_type", "stream_ptr")


class _CudaStreamBase(StreamMethods, torch._C.Stream):
    """A stream of the driver."""

    def __new__(cls, priority: int = 0, **given: Any) -> Self:
        """Create a stream from the current device's pool, by its id, or by the handle of an external one."""
        for name in given:
            if name not in _NEW_ARGUMENTS:
                raise TypeError(f"{name!r} is an invalid keyword argument for this function")
        for position, name in enumerate(_NEW_ARGUMENTS, start=1):
            value = given.get(name, 0)
            if not isinstance(value, int):
                raise TypeError(f"argument {position} must be int, not {type(value).__name__}")
        if not isinstance(priority, int):
            raise TypeError(f"{type(priority).__name__!r} object cannot be interpreted as an integer")
        driver = active()
        if any(given.get(name) for name in ("stream_id", "device_index", "device_type")):
            stream_id, device = given.get("stream_id", 0), given.get("device_index", 0)
        else:
            device = driver.current_device()
            if given.get("stream_ptr"):
                stream_id = driver.streams.external(device, given["stream_ptr"])
            elif "stream_ptr" in given and wraps_null_streams(torch.__version__):
                stream_id = 0
            else:
                stream_id = driver.streams.new(device, priority)
        return torch._C.Stream.__new__(cls, stream_id=stream_id, device_index=device, device_type=CUDA_TYPE)

    def __ne__(self, other: object) -> bool:
        # As on CUDA, a stream neither equals nor differs from None.
        return other is not None and not self == other

    __hash__ = torch._C.Stream.__hash__

    def synchronize(self) -> None:
        """Wait for all work given to this stream."""
        synchronizing()
        super().synchronize()

    @property
    def cuda_stream(self) -> int:
        """Return the stream's handle, as an integer; 0 is the default stream's."""
        _in_range(self.device_index)
        return self._state().handle

    @property
    def priority(self) -> int:
        """Return 0 for normal, negative values for higher priorities."""
        return self._state().priority

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Return the least and the greatest priority."""
        return LEAST_PRIORITY, GREATEST_PRIORITY

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")


# The stubs declare read-only attributes of an event as writable.
class _CudaEventBase(EventMethods, torch._C.Event):  # type: ignore[override]
    """An event of the driver."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> Self:
        """Create an event that belongs to no device until it is recorded."""
        self = torch._C.Event.__new__(cls, "cpu")  # the C part is never used: it only makes this a torch.Event
        streams = active().streams
        made = streams.interprocess_event if interprocess else streams.event
        self._event = made(bool(enable_timing))
        self._event.external = bool(external)
        self._interprocess = bool(interprocess)
        return self

    @classmethod
    def from_ipc_handle(cls, device: torch.device | str | int, ipc_handle: bytes | str) -> Self:
        """Return another process's event, by its handle."""
        if isinstance(ipc_handle, str):
            ipc_handle = ipc_handle.encode()
        if len(ipc_handle) != IPC_HANDLE_SIZE:
            raise RuntimeError(
                f"cudaIpcEventHandle_t expects byte-like object of size {IPC_HANDLE_SIZE}, but got {len(ipc_handle)}"
            )
        asked = torch.device(device)
        if asked.type != "cuda":
            raise RuntimeError(f"Event can only be created on CUDA devices, but got device type {asked.type}")
        driver = active()
        self = torch._C.Event.__new__(cls, "cpu")
        self._event = driver.streams.open_event(
            ipc_handle, driver.current_device() if asked.index is None else driver.check(asked.index)
        )
        self._interprocess = False
        return self

    def ipc_handle(self) -> bytes:
        """Return bytes that name this event to another process; only for events created with ``interprocess=True``."""
        if not self._interprocess:
            raise cuda_error(400)
        if self._event.timing:
            raise cuda_error(1)
        streams = active().streams
        streams.create_event(self._event, active().current_device())
        return streams.event_name(self._event)

    @property
    def device(self) -> torch.device | None:  # type: ignore[override]
        """Return the device the event was recorded on; ``None`` before."""
        return None if self._event.device is None else torch.device("cuda", self._event.device)

    @property
    def cuda_event(self) -> int:
        """Return the event's handle, as an integer; 0 before it is recorded."""
        return self._event.handle

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(f"cannot pickle {type(self).__name__!r} object")


for _class in (_CudaStreamBase, _CudaEventBase):
    _class.__module__ = "torch._C"


def _valid(device: int, what: str) -> int:
    """Check a device index for the functions below, with their errors."""
    if type(device) is not int:
        raise RuntimeError(f"invalid argument to {what}")
    if device == -1:
        return active().current_device()
    _in_range(device)
    return device


def _in_range(device: int) -> None:
    count = active().device_count()
    if not 0 <= device < count:
        raise RuntimeError(f"Device index value {device} is out of index range [0, {count})")


def _packed(stream_id: int, device: int) -> tuple[int, int, int]:
    return stream_id, device, CUDA_TYPE


def _cuda_getCurrentStream(device: int) -> tuple[int, int, int]:
    """Return ``(stream id, device index, device type)`` of the calling thread's current stream."""
    device = _valid(device, "getCurrentStream")
    return _packed(active().streams.current(device), device)


def _cuda_getDefaultStream(device: int) -> tuple[int, int, int]:
    """Return the ids of the device's default stream."""
    return _packed(0, _valid(device, "getDefaultStream"))


def _cuda_getStreamFromExternal(handle: int, device: int) -> tuple[int, int, int]:
    """Return the ids of an external stream."""
    device = _valid(device, "getStreamFromExternal")
    return _packed(active().streams.external(device, handle) if handle else 0, device)


def _cuda_getCurrentRawStream(device: int) -> int:
    """Return the handle of the calling thread's current stream."""
    device = _valid(device, "getCurrentRawStream")
    streams = active().streams
    return streams.state(streams.current(device), device).handle


def _cuda_setStream(stream_id: int, device_index: int, device_type: int) -> None:
    """Make a stream, and its device, the calling thread's current ones."""
    driver = active()
    driver.streams.set_current(stream_id, device_index)
    driver.set_device(device_index)


def _cuda_isCurrentStreamCapturing() -> bool:
    """Return whether a graph is being captured on the current stream."""
    driver = active()
    device = driver.current_device()
    return driver.streams.is_capturing(driver.streams.current(device), device)


# Their addresses are the handles of the host's BLAS and LAPACK: a program may compare and pass them, not dereference.
_blas, _solver = object(), object()
define(
    globals(),
    {
        "_cuda_getCurrentBlasHandle": lambda: id(_blas),
        "_cuda_getCurrentSolverHandle": lambda: id(_solver),
    },
)
