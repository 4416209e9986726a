"""``torch.Stream`` and ``torch.Event``, for any device type; and the stream of a backward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import BackwardCFunction

from ...drivers.handles import GenericEvent, GenericStream
from ...drivers.streams import DEFAULT_STREAM
from ...drivers.traits import Trait
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

if TYPE_CHECKING:
    from ..core.waiting import Waiting


@patch("torch.Stream", "torch.Event", "torch._C.Stream", "torch._C.Event", traits=Trait.TRANSLATED)
def streams_and_events(context: Context) -> None:
    """torch's C constructors need a CUDA guard, which a CPU build lacks; CUDA requests get the driver's streams."""
    for owner in (torch, torch._C):
        context.editor.set(owner, "Stream", GenericStream)
        context.editor.set(owner, "Event", GenericEvent)


@patch("torch.ops.aten[<key>]", traits=Trait.PARTIAL)
def synchronization(context: Context) -> None:
    """``torch.cuda.set_sync_debug_mode``: PyTorch's kernels do not tell which operators wait."""
    streams, translator = context.driver.streams, context.translator
    believed_cpu = translator.apparent_devices.is_cpu if translator.tracks_apparent_devices else lambda tensor: False

    waiting: Waiting | None = None

    def watch(mode: int) -> None:
        nonlocal waiting
        if waiting is None and mode:
            from ..core.waiting import Waiting  # reads the contract, which other programs do not need

            waiting = Waiting(context.driver.device_type.upper(), believed_cpu)
        if waiting is not None:
            waiting.watch(mode)

    def undo() -> None:
        watch(0)
        streams.watcher = None

    streams.watcher = watch
    context.editor.on_undo(undo)


_FUNCTION = "torch.autograd.function.BackwardCFunction"


@patch(f"{_FUNCTION}.__init__", f"{_FUNCTION}.apply", traits=Trait.TRANSLATED)
def backward_streams(context: Context) -> None:
    """A custom function's backward runs in the stream of its forward; torch's C++ knows only its own streams."""
    original: Function = BackwardCFunction.apply
    driver, streams = context.driver, context.driver.streams

    def __init__(self: Any) -> None:
        device = driver.current_device()
        stream = streams.current(device)
        if stream != DEFAULT_STREAM:
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

    context.editor.set(BackwardCFunction, "__init__", __init__)
    context.editor.set(BackwardCFunction, "apply", copy_metadata(apply, original))
