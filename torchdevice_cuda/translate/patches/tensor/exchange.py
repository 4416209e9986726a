"""``Tensor.numpy``, DLPack and ``__cuda_array_interface__``: passing a tensor's data to other libraries."""

from __future__ import annotations

from typing import Any

import torch

from ....drivers.traits import Trait
from ...core.context import Context
from ...core.disguise import CUDA, as_program, by_caller
from ...core.registry import patch
from ...core.wrapping import Function, install

_LEAVING = ("numpy", "__dlpack__", "__dlpack_device__")


@patch(*(f"torch.Tensor.{name}" for name in _LEAVING), traits=Trait.ACCELERATES)
def leaving(context: Context) -> None:
    """If requests for the CPU are redirected, a program cannot move a tensor there itself: numpy and DLPack do it."""
    accelerator = context.driver.device_type
    to_cpu = torch._C.TensorBase.cpu  # torch.Tensor.cpu is redirected
    for name in _LEAVING:
        original = getattr(torch.Tensor, name)

        def wrapper(self: torch.Tensor, *args: Any, _original: Function = original, **kwargs: Any) -> Any:
            return _original(to_cpu(self) if self.device.type == accelerator else self, *args, **kwargs)

        install(context, torch.Tensor, name, wrapper, original)


@patch("torch.Tensor.__dlpack_device__", traits=Trait.DISGUISED, without=Trait.ACCELERATES)
def dlpack_device(context: Context) -> None:
    """The exchanged device is CUDA's to the program."""
    name = "__dlpack_device__"
    context.editor.set(torch.Tensor, name, by_caller(vars(torch.Tensor)[name]))


@patch("torch.Tensor.__cuda_array_interface__", traits=Trait.DISGUISED)
def array_interface(context: Context) -> None:
    """The attribute must exist, since the tensor is on CUDA to the program."""
    original = vars(torch.Tensor)["__cuda_array_interface__"]
    shown = property(as_program(original.fget), doc=original.__doc__)
    context.editor.set(torch.Tensor, "__cuda_array_interface__", shown)


@patch("torch.Tensor.numpy", traits=Trait.DISGUISED, without=Trait.ACCELERATES)
def numpy_refusal(context: Context) -> None:
    """The error of ``x.numpy()`` for a GPU tensor must name the apparent device."""
    original = torch.Tensor.numpy
    real = context.driver.device_type

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        except TypeError:
            if self.device.type != real:
                raise
        raise TypeError(
            f"can't convert {CUDA} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
            "first."
        )

    install(context, torch.Tensor, "numpy", wrapper, original)
