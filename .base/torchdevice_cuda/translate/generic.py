"""``torch.Stream`` and ``torch.Event``: the generic ones, for any device type; and the stream of a backward pass."""

from __future__ import annotations

from typing import Any

from ..drivers import Driver
from .patches import Editor, patch
from .wrapping import disguise

_DEFAULT_STREAM = 0


@patch("cpu", "mps")
def streams_and_events(editor: Editor, driver: Driver) -> None:
    """torch's C constructors ask a CUDA guard, which a CPU build lacks; CUDA requests get the driver's streams."""
    import torch

    from ..drivers.handles import GenericEvent, GenericStream

    for owner in (torch, torch._C):
        editor.set(owner, "Stream", GenericStream)
        editor.set(owner, "Event", GenericEvent)


@patch("cpu", "mps")
def backward_streams(editor: Editor, driver: Driver) -> None:
    """A custom function's backward runs in the stream of its forward; torch's C++ sees to that for its own streams."""
    from torch.autograd.function import BackwardCFunction

    original = BackwardCFunction.apply
    streams = driver.streams

    def __init__(self: Any) -> None:
        device = driver.current_device()
        stream = streams.current(device)
        if stream != _DEFAULT_STREAM:
            self._torchdevice_stream = (stream, device)

    def apply(self: Any, *args: Any) -> Any:
        if not hasattr(self, "_torchdevice_stream"):
            return original(self, *args)
        stream, device = self._torchdevice_stream
        before = streams.current(device)
        streams.set_current(stream, device)
        try:
            return original(self, *args)
        finally:
            streams.set_current(before, device)

    editor.set(BackwardCFunction, "__init__", __init__)
    editor.set(BackwardCFunction, "apply", disguise(apply, original))
