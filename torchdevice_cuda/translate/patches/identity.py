"""The device that a tensor reports: ``x.device``, ``x.is_cuda``, ``repr(x)``.

``x.device`` is a property that checks the caller's module. Nothing else about tensors changes.
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import _tensor_str

from ...drivers.traits import Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.disguise import CPU, CUDA
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata, install

_frame = sys._getframe
#: Other names of torch's getters, while they are replaced.
_OWN_NAMES = {"device": "_torchdevice_device", "is_cuda": "_torchdevice_is_cuda", "is_cpu": "_torchdevice_is_cpu"}


@patch("torch.Tensor.device", "torch.Tensor.is_<type>", "torch.Tensor._torchdevice_<getter>", traits=Trait.DISGUISED)
def tensors(context: Context) -> None:
    """Tensors on the accelerator report ``cuda:0`` and CUDA's type instead of their real ones.

    torch's own getters get additional names, under which they cost as much as before; calling them as functions costs
    four times as much, and programs read these attributes most.
    """
    real = f"is_{context.driver.device_type}"
    for name, own in {**_OWN_NAMES, real: "_torchdevice_on_gpu"}.items():
        context.editor.set(torch.Tensor, own, vars(torch._C.TensorBase)[name])
    readers = (
        _believed(context) if context.translator.tracks_apparent_devices else {"device": _device, "is_cuda": _is_cuda}
    )
    for name, read in {**readers, real: _is_really}.items():
        context.editor.set(torch.Tensor, name, property(read, doc=vars(torch._C.TensorBase)[name].__doc__))


def _device(self: Any) -> Any:
    if self._torchdevice_on_gpu:
        try:
            if inside[_frame(1).f_globals["__name__"]]:
                return self._torchdevice_device
        except KeyError:  # code that was executed without a name is the program's
            pass
        return CUDA
    return self._torchdevice_device


def _is_cuda(self: Any) -> Any:
    if self._torchdevice_on_gpu:
        return not inside[_frame(1).f_globals.get("__name__")]
    return self._torchdevice_is_cuda


def _is_really(self: Any) -> bool:
    return self._torchdevice_on_gpu and inside[_frame(1).f_globals.get("__name__")]


def _believed(context: Context) -> dict[str, Callable[[Any], Any]]:
    """Return the reported device if tensors that report the CPU are on the GPU, too."""
    believed_cpu = context.translator.apparent_devices.is_cpu

    def device(self: Any) -> Any:
        if self._torchdevice_on_gpu:
            try:
                if inside[_frame(1).f_globals["__name__"]]:
                    return self._torchdevice_device
            except KeyError:
                pass
            return CPU if believed_cpu(self) else CUDA
        return self._torchdevice_device

    def is_cuda(self: Any) -> Any:
        if self._torchdevice_on_gpu:
            return not inside[_frame(1).f_globals.get("__name__")] and not believed_cpu(self)
        return self._torchdevice_is_cuda

    def is_cpu(self: Any) -> Any:
        if self._torchdevice_on_gpu:
            return not inside[_frame(1).f_globals.get("__name__")] and believed_cpu(self)
        return self._torchdevice_is_cpu

    return {"device": device, "is_cuda": is_cuda, "is_cpu": is_cpu}


@patch("torch.Tensor.get_device", traits=Trait.DISGUISED | Trait.ACCELERATES)
def indices(context: Context) -> None:
    """``x.get_device()`` is -1 for a tensor that reports the CPU."""
    original, on_gpu, believed_cpu = torch.Tensor.get_device, context.on_gpu, context.translator.apparent_devices.is_cpu

    def wrapper(self: torch.Tensor) -> Any:
        if on_gpu(self) and not inside[_frame(1).f_globals.get("__name__")] and believed_cpu(self):
            return -1
        return original(self)

    install(context, torch.Tensor, "get_device", wrapper, original)


#: Whether the tensor that is being printed reports the CPU.
_printing_cpu: contextvars.ContextVar[bool] = contextvars.ContextVar("printing_cpu", default=False)


@patch("torch._tensor_str._add_suffixes", traits=Trait.DISGUISED)
def printing(context: Context) -> None:
    """``repr(x)`` shows the apparent device; everything else about printing uses the real one."""
    original: Function = _tensor_str._add_suffixes
    real, shown = {f"device='{device}'" for device in context.gpu}, f"device='{CUDA}'"

    def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> Any:
        of_cpu = _printing_cpu.get()
        told = [shown if s in real else s for s in suffixes if not of_cpu or s not in real]
        return original(tensor_str, told, indent, force_newline)

    context.editor.set(_tensor_str, "_add_suffixes", copy_metadata(_add_suffixes, original))


@patch("torch._tensor_str._str", traits=Trait.DISGUISED | Trait.ACCELERATES)
def printing_believed(context: Context) -> None:
    """A tensor that reports the CPU prints no device."""
    original: Function = _tensor_str._str
    on_gpu, believed_cpu = context.on_gpu, context.translator.apparent_devices.is_cpu

    def _str(self: Any, **kwargs: Any) -> Any:
        before = _printing_cpu.set(on_gpu(self) and believed_cpu(self))
        try:
            return original(self, **kwargs)
        finally:
            _printing_cpu.reset(before)

    context.editor.set(_tensor_str, "_str", copy_metadata(_str, original))
