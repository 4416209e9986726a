"""``torch.cuda.Stream``, ``ExternalStream`` and ``Event``."""

from __future__ import annotations

import ctypes

import torch
from torch._utils import _dummy_type


class Stream(torch._C._CudaStreamBase):
    """A queue of work on one device, run in order and independently of other streams.

    Args:
        device: the device the stream belongs to; the current one for ``None`` or a negative index.
        priority: 0 is normal, lower numbers are served first; values out of range are brought to its ends.
    """

    def __new__(cls, device=None, priority=0, **kwargs):
        """Take a stream from the device's pool, or name an existing one by ``stream_id`` and ``device_index``."""
        if device is None or ("stream_id" in kwargs and "device_index" in kwargs):
            return super().__new__(cls, priority=priority, **kwargs)
        with torch.cuda.device(device):
            return super().__new__(cls, priority=priority, **kwargs)

    def wait_event(self, event) -> None:
        """Hold work given to this stream from now on until ``event`` completes; returns at once."""
        event.wait(self)

    def wait_stream(self, stream) -> None:
        """Hold work given to this stream from now on until all work now in ``stream`` is done; returns at once."""
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        """Record ``event``, or a new :class:`Event`, behind the work now in this stream, and return it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def query(self) -> bool:
        """Whether all work given to this stream is done."""
        return super().query()

    def synchronize(self) -> None:
        """Wait for all work given to this stream."""
        super().synchronize()

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_stream)

    def __eq__(self, o) -> bool:
        return isinstance(o, Stream) and super().__eq__(o)

    def __ne__(self, o) -> bool:
        # As on CUDA, a stream neither equals nor differs from None.
        return o is not None and not self.__eq__(o)

    def __hash__(self):
        return hash((self.cuda_stream, self.device))

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that something else made, known by its handle; whoever made it keeps it alive.

    Args:
        stream_ptr: the stream's handle as an integer.
        device: the device it belongs to; the current one for ``None``.
    """

    def __new__(cls, stream_ptr, device=None, **kwargs):
        """Wrap the handle."""
        with torch.cuda.device(device):
            return super().__new__(cls, stream_ptr=stream_ptr, **kwargs)


class Event(torch._C._CudaEventBase):
    """A mark in a stream: tells when the work before it is done, and the time between two of them.

    Args:
        enable_timing: whether the event can measure time.
        blocking: whether ``wait`` blocks the host thread.
        interprocess: whether the event can be shared with other processes.
        external: whether a graph records it as a node of its own.
    """

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        """Make an event that belongs to no device until it is recorded."""
        return super().__new__(
            cls, enable_timing=enable_timing, blocking=blocking, interprocess=interprocess, external=external
        )

    @classmethod
    def from_ipc_handle(cls, device, handle):
        """Open an event that another process shares."""
        return super().from_ipc_handle(device, handle)

    def record(self, stream=None):
        """Mark the work now in ``stream``, the current one unless given."""
        if stream is None:
            stream = torch.cuda.current_stream()
        super().record(stream)

    def wait(self, stream=None) -> None:
        """Hold work given to ``stream`` from now on, the current one unless given, until this event completes."""
        if stream is None:
            stream = torch.cuda.current_stream()
        super().wait(stream)

    def query(self):
        """Whether the work before this event is done; True for an event never recorded."""
        return super().query()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to ``end_event``, both recorded with timing and completed."""
        return super().elapsed_time(end_event)

    def synchronize(self) -> None:
        """Wait until the work before this event is done."""
        super().synchronize()

    def ipc_handle(self):
        """Bytes by which another process can open this event."""
        return super().ipc_handle()

    @property
    def _as_parameter_(self):
        return ctypes.c_void_p(self.cuda_event)

    def __repr__(self) -> str:
        if self.cuda_event:
            return f"<torch.cuda.Event {self._as_parameter_.value:#x}>"
        return "<torch.cuda.Event uninitialized>"
