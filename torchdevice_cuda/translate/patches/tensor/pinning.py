"""``Tensor.pin_memory`` and ``is_pinned``: torch's pinned memory comes from an accelerator's allocator."""

from __future__ import annotations

from typing import Any

import torch

from ....drivers.traits import Trait
from ...core.context import Context
from ...core.registry import patch
from ...core.retry import given_second_try
from ...core.wrapping import Function, install

_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to


@patch("torch.Tensor.pin_memory", "torch.Tensor.is_pinned", traits=Trait.TRANSLATED)
def pinning(context: Context) -> None:
    """A CPU build has no such allocator, and the Apple GPU's memory is the host's: a copy reports that it is pinned.

    A tensor that was redirected to the accelerator is moved back first.
    """
    pinned, marks, translator = context.pinned, context.translator.marks, context.translator
    pin, asks = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pinnable(tensor: torch.Tensor) -> bool:
        if tensor.layout is not torch.strided or tensor in marks:
            return False
        return tensor.device.type == "cpu" or translator.default_target is not None

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        if self in pinned:
            return self
        if not pinnable(self):
            kind = self.type().replace("torch.", "torch.cuda.", 1) if self in marks else torch.Tensor.type(self)
            raise RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")
        copied = _to(self.detach(), _CPU, copy=True, memory_format=torch.contiguous_format)
        return pinned.adopt(copied.requires_grad_(self.requires_grad))

    def is_pinned(self: torch.Tensor, device: Any = None) -> bool:
        return self in pinned

    install(context, torch.Tensor, "pin_memory", pin_memory, pin)
    install(context, torch.Tensor, "is_pinned", is_pinned, asks)


_METHODS = ("pin_memory", "is_pinned")


@patch(*(f"torch.Tensor.{name}" for name in _METHODS), traits=Trait.REDIRECTS, without=Trait.TRANSLATED)
def pinning_apart(context: Context) -> None:
    """Redirected tensors are moved back to be pinned, and ``mps`` names the accelerator."""
    translator, on_gpu = context.translator, context.on_gpu
    for name in _METHODS:
        original = getattr(torch.Tensor, name)
        brought_home = name == "pin_memory" and translator.default_target is not None

        def wrapper(
            self: torch.Tensor,
            device: Any = None,
            _original: Function = original,
            _brought_home: bool = brought_home,
        ) -> Any:
            tensor = _to(self, _CPU) if _brought_home and on_gpu(self) else self
            return _original(tensor) if device is None else _original(tensor, translator.device(device))

        install(context, torch.Tensor, name, wrapper, original)


@patch(*(f"torch.Tensor.{name}" for name in _METHODS), traits=Trait.NATIVE, without=Trait.REDIRECTS)
def foreign_names(context: Context) -> None:
    """These methods understand ``cuda`` themselves; ``mps`` is translated when they fail."""
    for name in _METHODS:
        given_second_try(context, f"torch.Tensor.{name}", vars(torch._C.TensorBase)[name], place=1)
