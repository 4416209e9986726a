"""What a tensor says it is: ``x.device``, ``x.is_cuda``, ``repr(x)``.

``x.device`` is a property that looks at who asks: one look at the caller's module. Nothing else about tensors changes.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import _tensor_str

from ...drivers.traits import Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.disguise import CUDA
from ..core.registry import patch
from ..core.wrapping import Function, resembling

_frame = sys._getframe
#: The names that torch's own getters have while others stand in their places.
_OWN_NAMES = {"device": "_torchdevice_device", "is_cuda": "_torchdevice_is_cuda"}


@patch("torch.Tensor.device", "torch.Tensor.is_<type>", "torch.Tensor._torchdevice_<getter>", traits=Trait.DISGUISED)
def tensors(context: Context) -> None:
    """Tensors on the accelerator say ``cuda:0``, are CUDA's and not of the type that they really are.

    torch's own getters get further names, under which an attribute costs what it always does; calling them as functions
    costs four times as much, and these are the attributes that programs read most.
    """
    real = f"is_{context.driver.device_type}"
    for name, own in {**_OWN_NAMES, real: "_torchdevice_on_gpu"}.items():
        context.editor.set(torch.Tensor, own, vars(torch._C.TensorBase)[name])
    for read, name in ((_device, "device"), (_is_cuda, "is_cuda"), (_is_really, real)):
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


@patch("torch._tensor_str._add_suffixes", traits=Trait.DISGUISED)
def printing(context: Context) -> None:
    """``repr(x)`` shows the device that the program knows; everything else about printing goes by the real one."""
    original: Function = _tensor_str._add_suffixes
    real, shown = {f"device='{device}'" for device in context.gpu}, f"device='{CUDA}'"

    def _add_suffixes(tensor_str: str, suffixes: list[str], indent: int, force_newline: bool) -> Any:
        return original(tensor_str, [shown if s in real else s for s in suffixes], indent, force_newline)

    context.editor.set(_tensor_str, "_add_suffixes", resembling(_add_suffixes, original))
