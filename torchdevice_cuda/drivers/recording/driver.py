"""The base of drivers whose graphs are recorded in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base import Driver

if TYPE_CHECKING:
    import torch

    from ...native.interface import NativeGraph
    from ..streams import Capture
    from .captures import CapturingStreams


class RecordingDriver(Driver):
    """A driver whose kernels are PyTorch's: calls are recorded before they reach the kernels."""

    if TYPE_CHECKING:

        @property
        def streams(self) -> CapturingStreams:
            """Return streams that support captures."""

    @property
    def can_capture(self) -> bool:
        return True

    def graph(self) -> NativeGraph | None:
        from .graph import RecordedGraph  # needs all of torch

        return RecordedGraph(self, self.streams.captures)

    def capture(self) -> Capture | None:
        """Return the capture that the calling thread's current stream takes part in."""
        streams = self.streams
        if not streams.captures.underway:
            return None
        device = self.current_device()
        return streams.captures.of(streams.state(streams.current(device), device))

    def seed(self, generator: torch.Generator, seed: int | None) -> None:
        """Seed a default generator, if no graph is being captured from it."""
        if (capture := self.capture()) is not None:
            from .graph import refuse_seeding

            refuse_seeding(capture, generator, seed)
        super().seed(generator, seed)
