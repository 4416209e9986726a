"""The dispatch mode that observes the operators of the capturing thread.

It is entered when a capture begins and left when it ends. Autograd passes it on to the threads of a backward pass.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ...report.unsupported import not_supported

if TYPE_CHECKING:
    from ..streams import StreamState
    from .operators import Operator


class Recording(Protocol):
    """A capture that is underway, as its calls see it."""

    def stream(self) -> StreamState | None:
        """Return the calling thread's stream, if it takes part."""

    def call(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator, and record the call if it belongs to the capture."""

    def foreign(
        self, name: str, make: Callable[..., Any], args: tuple[Any, ...], written: Sequence[torch.Tensor]
    ) -> Any:
        """Call a function that is not an operator, and record it as one call."""


class _Here(threading.local):
    """The recording state of the calling thread."""

    carrying = False
    foreign = False
    recorder: Recorder | None = None


_here = _Here()


@contextlib.contextmanager
def carrying() -> Iterator[None]:
    """Mark copies of this thread between GPU and host as torchdevice_cuda's, not the program's: they are recorded."""
    before, _here.carrying = _here.carrying, True
    try:
        yield
    finally:
        _here.carrying = before


@contextlib.contextmanager
def one_call() -> Iterator[None]:
    """Treat what this thread does as part of one call, which is recorded as a whole."""
    _here.foreign = True
    try:
        with torch._C._DisableTorchDispatch():
            yield
    finally:
        _here.foreign = False


def is_carrying() -> bool:
    """Return whether the thread is inside ``carrying()``."""
    return _here.carrying


class Recorder(TorchDispatchMode):
    """Observes every operator that the thread calls."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recording = recording

    def __torch_dispatch__(self, func: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # the class decomposes its operators itself, and those are recorded
        before, _here.recorder = _here.recorder, self
        try:
            return self.recording.call(func, args, kwargs or {})
        finally:
            _here.recorder = before

    def enter(self) -> None:
        """Observe the calling thread's operators.

        This bypasses ``__enter__``, which stops dynamo from compiling in all threads. Compiled code is recorded, too.
        """
        torch._C._push_on_torch_dispatch_stack(self)

    def is_here(self) -> bool:
        """Return whether the calling thread has entered it."""
        return _here.recorder is self or any(mode is self for mode in modes())

    def leave(self) -> None:
        """Remove it from the calling thread, whatever modes were entered after it."""
        above = []
        while torch._C._len_torch_dispatch_stack():
            mode = torch._C._pop_torch_dispatch_stack(None)
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            torch._C._push_on_torch_dispatch_stack(mode)


def modes() -> list[Any]:
    """Return the dispatch modes that the calling thread has entered."""
    return [torch._C._get_dispatch_stack_at(place) for place in range(torch._C._len_torch_dispatch_stack())]


def recording_here() -> Recording | None:
    """Return the capture that the calling thread's work belongs to, if any."""
    for mode in [] if _here.foreign else reversed(modes()):
        if isinstance(mode, Recorder) and mode.recording.stream() is not None:
            return mode.recording
    return None


def uncapturable(what: str) -> Exception:
    """Return the error for work that does not go through operators, and would be missing in a graph."""
    return not_supported(
        f"{what} in a capture",
        f"{what} cannot be captured into a CUDA graph on this driver of torchdevice_cuda, which records PyTorch's "
        "operators: call it outside of the graph, or use --driver virtual",
    )


def refuse_unseen(what: str) -> None:
    """Raise if work that does not go through operators would be missing in a graph that is being captured."""
    if torch._C._len_torch_dispatch_stack() and recording_here() is not None:
        raise uncapturable(what)


def is_recorded() -> bool:
    """Return whether the calling thread's work is recorded into a graph."""
    return any(isinstance(mode, Recorder) for mode in modes())


def only_recorded() -> bool:
    """Return whether only captures observe the calling thread's work."""
    return all(isinstance(mode, Recorder) for mode in modes())
