"""``torch.library``: kernels that a program defines for CUDA."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
import torch.library
from torch._library import custom_ops

from ..._compat import present
from ...drivers.traits import Trait
from ..core.callers import inside
from ..core.context import Context
from ..core.registry import patch
from ..core.wrapping import Function, copy_metadata

_frame = sys._getframe
#: Part of the names of dispatch keys: those of CUDA tensors, and of their gradients, autocast and layouts.
_CUDA = "CUDA"


@patch("torch._C._dispatch_key_for_device", traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def keys(context: Context) -> None:
    """``@torch.library.custom_op(..., device_types="cuda")`` is for tensors on the accelerator."""
    original, real = torch._C._dispatch_key_for_device, context.driver.device_type

    def _dispatch_key_for_device(device_type: str) -> str:
        return original(real if device_type == "cuda" else device_type)

    context.editor.set(torch._C, "_dispatch_key_for_device", copy_metadata(_dispatch_key_for_device, original))


@patch("torch._C._dispatch_has_computed_kernel_for_dispatch_key", traits=Trait.NATIVE | Trait.HOST_MEMORY)
def computed_kernels(context: Context) -> None:
    """An operator without a kernel for CUDA has none: what it falls back to on the virtual GPU is ours.

    ``torch._custom_op`` refuses a kernel for a device that has one.
    """
    original, has_kernel = (
        torch._C._dispatch_has_computed_kernel_for_dispatch_key,
        torch._C._dispatch_has_kernel_for_dispatch_key,
    )
    composed = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")

    def _dispatch_has_computed_kernel_for_dispatch_key(name: str, dispatch: str) -> bool:
        if dispatch != _CUDA:
            return original(name, dispatch)
        return any(has_kernel(name, key) for key in (_CUDA, *composed))

    name = "_dispatch_has_computed_kernel_for_dispatch_key"
    context.editor.set(torch._C, name, copy_metadata(_dispatch_has_computed_kernel_for_dispatch_key, original))


#: Modules that register kernels for their caller.
_BETWEEN = frozenset({"torch.library", "torch._library.custom_ops"})


def _by_torch() -> bool:
    """Return whether torch registers a kernel, with a function of torchdevice_cuda in between."""
    frame: FrameType | None = _frame(2)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame is not None and inside[frame.f_globals.get("__name__")]


@patch("torch.library.Library.impl", traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def implementations(context: Context) -> None:
    """``library.impl(name, kernel, "CUDA")`` by a program is for the accelerator; torch's CUDA kernels are not."""
    original: Function = torch.library.Library.impl
    real = context.driver.device_type.upper()

    def impl(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **kwargs: Any) -> Any:
        if isinstance(dispatch_key, str) and _CUDA in dispatch_key and not _by_torch():
            dispatch_key = dispatch_key.replace(_CUDA, real)
            if dispatch_key.startswith("Autocast"):
                fn = _once(fn, dispatch_key)
        return original(self, op_name, fn, dispatch_key, **kwargs)

    context.editor.set(torch.library.Library, "impl", copy_metadata(impl, original))


def _once(kernel: Function, key: str) -> Function:
    """Return a kernel that casts, and calls the operator again with CUDA's autocast off, which disables the kernel."""
    keys = torch._C.DispatchKeySet(torch._C._dispatch_key_parse(key))

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return kernel(*args, **kwargs)

    return copy_metadata(wrapper, kernel)


@patch("torch._library.custom_ops._cast", "torch.library._cast", traits=Trait.TRANSLATED, without=Trait.HOST_MEMORY)
def autocast(context: Context) -> None:
    """``torch.library.register_autocast(op, "cuda", dtype)`` casts tensors of the given device type."""
    if not present(custom_ops, ["_cast"]):
        return  # added in torch 2.7
    original, real = custom_ops._cast, context.driver.device_type

    def _cast(value: Any, device_type: str, dtype: torch.dtype) -> Any:
        return original(value, real if device_type == "cuda" else device_type, dtype)

    for owner in (custom_ops, torch.library):
        context.editor.set(owner, "_cast", copy_metadata(_cast, original))
