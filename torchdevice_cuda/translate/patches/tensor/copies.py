"""``Tensor.copy_``, ``record_stream`` and ``__deepcopy__``: copies, and asynchronous work."""

from __future__ import annotations

from typing import Any

import torch

from ....drivers.handles import CStream
from ....drivers.recording.mode import is_recorded
from ....drivers.traits import Trait
from ...core.context import Context
from ...core.registry import patch
from ...core.wrapping import Function, copy_metadata, install

_UNALIGNED = "Unaligned blit request"
_cpu = torch._C.TensorBase.cpu


@patch("torch.Tensor.copy_", traits=Trait.RACING_COPIES)
def copies(context: Context) -> None:
    """``Tensor.copy_(non_blocking=True)`` between the CPU and the GPU waits, like every copy here.

    The GPU writes words of four bytes: a copy to an unaligned address in CPU memory goes through a temporary tensor.
    """
    original = torch.Tensor.copy_

    def wrapper(self: torch.Tensor, src: Any, non_blocking: bool = False) -> torch.Tensor:
        try:
            # Pass the flag on, so that a graph capture records it; the copy waits nevertheless.
            return original(self, src, True) if non_blocking and is_recorded() else original(self, src)
        except RuntimeError as error:
            if _UNALIGNED not in str(error):
                raise
        return original(self, _cpu(src))

    install(context, torch.Tensor, "copy_", wrapper, original)


@patch("torch.Tensor.record_stream", traits=Trait.TRANSLATED)
def record_stream(context: Context) -> None:
    """record_stream prevents the reuse of memory while a stream uses it; the host's work is done at once."""
    original, on_cpu = torch.Tensor.record_stream, Trait.CPU_TENSORS in context.traits

    def wrapper(self: torch.Tensor, stream: Any) -> None:
        if not on_cpu and self.device.type == "cpu":
            original(self, stream)  # raises, because the CPU has no streams
        if not isinstance(stream, CStream):
            raise RuntimeError(f"record_stream(): argument 's' must be Stream, not {type(stream).__name__}")

    install(context, torch.Tensor, "record_stream", wrapper, original)


@patch("torch.Tensor.__deepcopy__", "torch.nn.parameter.Parameter.__deepcopy__", traits=Trait.ACCELERATES)
def deep_copies(context: Context) -> None:
    """A copy has the same apparent device as the original."""
    carry = context.translator.apparent_devices.carry
    for owner in (torch.Tensor, torch.nn.Parameter):
        original: Function = vars(owner)["__deepcopy__"]

        def __deepcopy__(self: torch.Tensor, memo: Any, _original: Function = original) -> Any:
            return carry(self, _original(self, memo))

        context.editor.set(owner, "__deepcopy__", copy_metadata(__deepcopy__, original))
