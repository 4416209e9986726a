"""Moves of tensors whose device has been translated: which ones copy, and the apparent device of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...drivers.recording.mode import is_recorded
from ...drivers.recording.refusals import PAGEABLE
from ...drivers.traits import Trait
from .context import Context

_BEFORE_COPY = 3  # arguments before ``copy`` in ``Tensor.to(device, dtype, non_blocking, copy)``

Arguments = tuple[Any, ...]
Keywords = dict[str, Any]


def crossing(context: Context) -> Callable[[torch.Tensor, bool], bool]:
    """Return whether a tensor that stays on the GPU moves between the CPU and CUDA as the program sees it."""
    translator, on_gpu = context.translator, context.on_gpu

    def crosses(tensor: torch.Tensor, wants_gpu: bool) -> bool:
        if translator.default_target is None or not on_gpu(tensor):
            return False
        return translator.apparent_devices.is_cpu(tensor) == wants_gpu

    return crosses


def _copied(copy: Any) -> Any:
    """Return the argument ``copy`` for a move that must copy; torch refuses values that are not booleans."""
    return True if copy is False else copy


def copying(args: Arguments, kwargs: Keywords) -> tuple[Arguments, Keywords]:
    """Return the arguments of ``to`` after the device, for a move that always returns another tensor."""
    if len(args) >= _BEFORE_COPY:
        return (*args[: _BEFORE_COPY - 1], _copied(args[_BEFORE_COPY - 1]), *args[_BEFORE_COPY:]), kwargs
    return args, {**kwargs, "copy": _copied(kwargs.get("copy", False))}


def _mover_apart(context: Context) -> Callable[..., torch.Tensor]:
    """Return the mover for an accelerator with separate memory.

    If requests for the CPU go to the GPU too, a move between the two still copies: a program changes one tensor and
    continues with the other.
    """
    original, gpu, apparent_devices = torch._C.TensorBase.to, context.gpu, context.translator.apparent_devices
    crosses = crossing(context)

    def move(
        self: torch.Tensor, wants_gpu: bool, target: torch.device, args: Arguments, kwargs: Keywords
    ) -> torch.Tensor:
        return original(self, target, *args, **kwargs)

    def move_redirected(
        self: torch.Tensor, wants_gpu: bool, target: torch.device, args: Arguments, kwargs: Keywords
    ) -> torch.Tensor:
        if target not in gpu:
            return original(self, target, *args, **kwargs)
        if crosses(self, wants_gpu):
            args, kwargs = copying(args, kwargs)
        moved = original(self, target, *args, **kwargs)
        if wants_gpu:
            return apparent_devices.add_cuda(moved)
        return moved if moved is self else apparent_devices.add_cpu(moved)

    return move if context.translator.default_target is None else move_redirected


def mover(context: Context) -> Callable[..., torch.Tensor]:
    """Return ``move(tensor, to_cuda, target, args, kwargs)``, which moves to a device that has been translated."""
    original = torch._C.TensorBase.to
    marks, driver = context.translator.marks, context.driver
    if Trait.CPU_TENSORS not in context.traits:
        return _mover_apart(context)

    def move_on_host(
        self: torch.Tensor, to_cuda: bool, target: torch.device, args: Arguments, kwargs: Keywords
    ) -> torch.Tensor:
        # torch.jit.trace compares runs with unmarked clones, down to the line of a call.
        if torch._C._get_tracing_state() is not None:
            return original(self, target, *args, **kwargs)
        # A move between CUDA and the CPU copies, even if both are this memory; a move to the tensor's own device does
        # not.
        there = self in marks
        if there == to_cuda:
            moved = original(self, target, *args, **kwargs)
            if moved is self:
                # Do not mark it: a parameter stays the same object when ``Module.cpu`` moves it.
                return self
        elif target.type == "cpu" and self.device.type == "cpu":
            if there and is_recorded():
                raise RuntimeError(PAGEABLE)
            args, kwargs = copying(args, kwargs)
            if to_cuda and driver.needs_init:
                torch.cuda._lazy_init()
            try:
                moved = original(self, target, *args, **kwargs)
            except RuntimeError as error:
                raise driver.memory.translated(error, driver.current_device()) from None
        else:
            return original(self, target, *args, **kwargs)
        return marks.add_moved(moved) if to_cuda else moved

    return move_on_host
