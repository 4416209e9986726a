"""Graphs: calls that are recorded once and repeated many times, into the same memory."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch

from ..errors import cuda_error
from ..streams import RELAXED, Capture
from ..traits import Trait
from .captures import WRONG_THREAD, Captures
from .nodes import Node
from .recording import Recording

if TYPE_CHECKING:
    from ..base import Driver
    from ..streams import StreamState

_IN_CAPTURE = (
    "{} during CUDA graph capture. If you need this call to be captured, please file an issue. Current "
    "cudaStreamCaptureStatus: cudaStreamCaptureStatus{}"
)
#: Dispatch keys of autocast, which has run before a call is recorded, as autograd has.
_DONE = [name for name in ("AutocastCPU", "AutocastCUDA", "AutocastMPS") if hasattr(torch._C.DispatchKey, name)]


def refuse_in_capture(capture: Capture | None, what: str) -> None:
    """Raise CUDA's error for a function that is not allowed during capture; the capture continues."""
    if capture is not None:
        raise RuntimeError(_IN_CAPTURE.format(what, "Invalidated" if capture.broken else "Active"))


def refuse_seeding(capture: Capture | None, generator: torch.Generator, seed: int | None) -> None:
    """Refuse seeds during capture: only a generator's current one may be set again."""
    if seed is None:
        refuse_in_capture(capture, "Cannot call CUDAGeneratorImpl::seed")
    elif capture is not None and seed % (1 << 64) != generator.initial_seed():
        raise RuntimeError(
            "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as "
            "the original seed."
        )


class RecordedGraph:
    """The graph of a driver whose kernels are PyTorch's; it has the interface of the compiled device's graph."""

    def __init__(self, driver: Driver, captures: Captures) -> None:
        self._driver, self._captures = driver, captures
        self.capturing = False
        self._recording: Recording | None = None
        self._nodes: list[Node] = []
        self._generators: list[torch.Generator] = []

    def _stream(self) -> StreamState:
        streams, device = self._driver.streams, self._driver.current_device()
        return streams.state(streams.current(device), device)

    def _refuse_in_capture(self, what: str) -> None:
        if self._captures.underway:
            refuse_in_capture(self._captures.of(self._stream()), what)

    def register_generator(self, generator: torch.Generator) -> None:
        """Add a generator whose draws belong to the graph."""
        self._refuse_in_capture("Cannot register the state during capturing stage.")
        self._generators.append(generator)

    def begin(self, pool_a: int, pool_b: int, mode: int) -> None:
        """Record the work of the current stream. The pool is only a name: the graph itself holds its memory."""
        self._refuse_in_capture("Cannot register the state during capturing stage.")
        capture = Capture(self._stream(), mode)
        known = [*self._driver.generators(), *self._generators]
        if Trait.CPU_TENSORS in self._driver.traits:
            known.append(torch.default_generator)  # calls without a generator draw from it
        recording = Recording(self._driver, capture, known)
        self._captures.begin(capture)
        self._recording, self.capturing = recording, True
        recording.recorder.enter()

    def end(self) -> None:
        """Stop recording; raise the capture's error, if any, after it has stopped."""
        recording = self._recording
        assert recording is not None
        capture = recording.capture
        is_elsewhere = capture.mode != RELAXED and capture.thread != threading.get_ident()
        self._recording, self.capturing = None, False
        self._captures.leave(capture)
        error = self._captures.end(capture)
        recording.put_back()
        if is_elsewhere or error is not None:
            raise cuda_error(WRONG_THREAD) if error is None else error
        self._nodes = recording.nodes

    def replay(self) -> None:
        """Repeat the calls."""
        self._refuse_in_capture("Cannot prepare for replay during capturing stage.")
        with (
            torch._C._DisableTorchDispatch(),
            torch._C._AutoDispatchBelowAutograd(),
            torch._C._ExcludeDispatchKeyGuard(_done()),
        ):
            for node in self._nodes:
                node.run()

    def reset(self) -> None:
        """Drop the calls and release their memory."""
        if self._recording is None:
            self._nodes = []

    def names(self) -> list[str]:
        """Return the operators, in order."""
        return [node.name for node in self._nodes if node.name]

    def holds_current_stream(self) -> bool:
        """Return whether the capture began on the thread's current stream."""
        return self._recording is not None and self._stream() is self._recording.capture.origin

    def takes_current_stream(self) -> bool:
        """Return whether the thread's current stream takes part in the capture."""
        return self._recording is not None and self._recording.capture.takes(self._stream())


def _done() -> torch._C.DispatchKeySet:
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, _DONE[0]))
    for name in _DONE[1:]:
        keys = keys | torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, name))
    return keys
