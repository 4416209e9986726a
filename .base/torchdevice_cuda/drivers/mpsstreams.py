"""CUDA's streams and events over the one queue of the Apple GPU.

All work goes through one queue in the order in which it was given, so that whatever CUDA's ordering rules ask for holds
by itself; what is left is to tell the truth about when work is done, and how long it took: ``torch.mps.Event`` does.
Streams that the program itself keeps busy (``torch.cuda._sleep``) are kept on the host's clock.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from .streams import EventState, Streams


@dataclasses.dataclass
class MpsEvent(EventState):
    """An event with its counterpart in the queue, made when it is first recorded."""

    native: Any = None
    held_by_host: bool = False  # the stream was asleep when the event was recorded: the host's clock tells its moment


class MpsStreams(Streams):
    """Streams whose waiting also waits for the queue."""

    def _idle(self) -> bool:
        """Whether the queue has run dry: an event recorded now would be complete."""
        import torch

        marker = torch.mps.Event()
        marker.record()
        return marker.query()

    def query(self, stream_id: int, device: int) -> bool:
        """Whether all work of a stream is done."""
        return super().query(stream_id, device) and self._idle()

    def synchronize(self, stream_id: int, device: int) -> None:
        """Wait for all work of a stream: for that of the queue."""
        import torch

        super().synchronize(stream_id, device)
        torch._C._mps_deviceSynchronize()

    def synchronize_device(self, device: int) -> None:
        """Wait for all work of the device."""
        import torch

        super().synchronize_device(device)
        torch._C._mps_deviceSynchronize()

    def event(self, timing: bool) -> MpsEvent:
        """A new event, not yet recorded."""
        return MpsEvent(timing)

    def record(self, event: MpsEvent, stream_id: int, device: int) -> None:
        """Let the event complete when all work now in the queue has."""
        import torch

        super().record(event, stream_id, device)
        event.held_by_host = event.completes_at > time.monotonic_ns()
        if event.native is None:
            event.native = torch.mps.Event(enable_timing=event.timing)
        event.native.record()

    def query_event(self, event: MpsEvent) -> bool:
        """Whether the event has completed."""
        return super().query_event(event) and (event.native is None or event.native.query())

    def synchronize_event(self, event: MpsEvent) -> None:
        """Wait for the event."""
        super().synchronize_event(event)
        if event.native is not None:
            event.native.synchronize()

    def elapsed_ms(self, start: MpsEvent, end: MpsEvent) -> float:
        """Milliseconds of the GPU between two completed events; of the host where a sleeping stream held one up."""
        on_host = super().elapsed_ms(start, end)
        if start.held_by_host or end.held_by_host:
            return on_host
        return start.native.elapsed_time(end.native)
