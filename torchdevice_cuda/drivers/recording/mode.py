"""The dispatch mode that sees what the capturing thread computes.

It is entered when a capture begins and left when it ends. Autograd hands it on to the threads of a backward pass.
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
    """A capture that is underway, as far as its calls see it."""

    def stream(self) -> StreamState | None:
        """Return the calling thread's stream, if it takes part."""

    def call(self, op: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call an operator, and record the call if it belongs to the capture."""

    def foreign(
        self, name: str, make: Callable[..., Any], args: tuple[Any, ...], written: Sequence[torch.Tensor]
    ) -> Any:
        """Call a function that is no operator, and record it as one call."""


class _Here(threading.local):
    """The activity of the calling thread."""

    carrying = False
    foreign = False
    recorder: Recorder | None = None


_here = _Here()


@contextlib.contextmanager
def carrying() -> Iterator[None]:
    """Meanwhile the thread's copies between the GPU and the host are ours, not the program's: they are recorded."""
    before, _here.carrying = _here.carrying, True
    try:
        yield
    finally:
        _here.carrying = before


@contextlib.contextmanager
def one_call() -> Iterator[None]:
    """Meanwhile what the thread does is part of one call, which is recorded as a whole."""
    _here.foreign = True
    try:
        with torch._C._DisableTorchDispatch():
            yield
    finally:
        _here.foreign = False


def is_carrying() -> bool:
    """Return whether that is so."""
    return _here.carrying


class Recorder(TorchDispatchMode):
    """Sees every operator that the thread calls."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recording = recording

    def __torch_dispatch__(self, func: Operator, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
            return NotImplemented  # it takes its operators apart itself, and those are recorded
        before, _here.recorder = _here.recorder, self
        try:
            return self.recording.call(func, args, kwargs or {})
        finally:
            _here.recorder = before

    def enter(self) -> None:
        """Have the calling thread's operators come here.

        Past ``__enter__``: that tells dynamo, for all threads, to compile nothing. Compiled code is recorded, too.
        """
        torch._C._push_on_torch_dispatch_stack(self)

    def is_here(self) -> bool:
        """Return whether the calling thread has it entered."""
        return _here.recorder is self or any(mode is self for mode in modes())

    def leave(self) -> None:
        """Take it from the calling thread, whatever modes were entered after it."""
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
    """Return the capture that what the calling thread does is part of, if it is of one."""
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
    """Raise where work that does not go through operators would be missing in a graph that is captured."""
    if torch._C._len_torch_dispatch_stack() and recording_here() is not None:
        raise uncapturable(what)


def is_recorded() -> bool:
    """Return whether what the calling thread computes goes into a graph."""
    return any(isinstance(mode, Recorder) for mode in modes())


def only_recorded() -> bool:
    """Return whether nobody but captures of ours looks at what the calling thread computes."""
    return all(isinstance(mode, Recorder) for mode in modes())
