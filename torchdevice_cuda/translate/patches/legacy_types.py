"""``torch.cuda.FloatTensor`` and others: legacy constructors, types and default types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.cuda.sparse

from ...drivers.traits import Trait
from ..core.context import Context
from ..core.entering import entering
from ..core.legacy import PREFIXES, STORAGES, HostTensorType, TensorType, attributes, legacy_class
from ..core.registry import patch
from ..core.wrapping import copy_metadata, install


@patch("torch.cuda.<type>", "torch.cuda.sparse.<type>", traits=Trait.SUBSTITUTE)
def classes(context: Context) -> None:
    """torch's C++ creates these classes for CUDA builds; in other builds they refuse every call."""
    for owner, host in ((torch.cuda, torch), (torch.cuda.sparse, torch.sparse)):
        for prefix in PREFIXES:
            name = f"{prefix}Tensor"
            if hasattr(owner, name) and hasattr(host, name):
                made = legacy_class(context.translator, name, owner.__name__, getattr(host, name))
                context.editor.set(owner, name, made)


def _entering(context: Context) -> Callable[[torch.Tensor, tuple[Any, ...]], torch.Tensor]:
    """Move a tensor created from these arguments; one over a storage stays with the storage."""
    enter = entering(context)

    def entered(made: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
        return made if args and isinstance(args[0], STORAGES) else enter(made)

    return entered


@patch("torch.<type>", traits=Trait.ACCELERATES)
def host_classes(context: Context) -> None:
    """``torch.FloatTensor(3)`` names no device: if such requests go to the accelerator, so does it."""
    enter, translator = _entering(context), context.translator
    for prefix in PREFIXES:
        name = f"{prefix}Tensor"
        host = getattr(torch, name)
        own = {"__module__": "torch", "_host": host, "_enter": staticmethod(enter), "_translator": translator}
        context.editor.set(torch, name, HostTensorType(name, (), attributes(host) | own))


@patch("torch.Tensor.__new__", traits=Trait.ACCELERATES)
def construction(context: Context) -> None:
    """``torch.Tensor(2, 3)`` creates many parameters and follows the policy; subclasses construct themselves."""
    enter, original = _entering(context), torch.Tensor.__new__

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        made: torch.Tensor = original(cls, *args, **kwargs)
        return enter(made, args) if cls is torch.Tensor else made

    context.editor.set(torch.Tensor, "__new__", staticmethod(copy_metadata(__new__, original)))


@patch(
    "torch.set_default_tensor_type",
    "torch.Tensor.__new__",
    "torch._C._get_default_device",
    traits=Trait.SUBSTITUTE,
)
def default_type(context: Context) -> None:
    """``torch.set_default_tensor_type`` with a CUDA type sets the dtype, and CUDA as the default device.

    ``torch.Tensor(2, 3)`` ignores the default device: it is replaced when a CUDA type is first set. So is the query of
    ``repr``, which shows a tensor's device only if it is not that of the default type.
    """
    original, make = torch.set_default_tensor_type, torch.Tensor.__new__
    tensor, ask = torch.Tensor, torch._C._get_default_device
    replaced: list[None] = []
    chosen: Any = None  # the class that replaces torch.Tensor, if it is one of CUDA's

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        # a tensor argument: an alias of it
        if chosen is None or cls is not tensor or (args and isinstance(args[0], tensor)):
            return make(cls, *args, **kwargs)
        return chosen(*args, **kwargs)

    def _get_default_device() -> str:
        return ask() if chosen is None else "cuda"

    @context.editor.later
    def replace_construction() -> None:
        context.editor.set(torch.Tensor, "__new__", staticmethod(copy_metadata(__new__, make)))
        context.editor.set(torch._C, "_get_default_device", copy_metadata(_get_default_device, ask))

    def set_default_tensor_type(t: Any) -> None:
        if not isinstance(t, str) and not hasattr(t, "__name__"):  # not a type but, for example, a dtype: torch raises
            original(t)
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
        on_cuda = name.startswith("torch.cuda.")
        known = getattr(torch, name.rpartition(".")[2], t) if on_cuda or isinstance(t, (str, TensorType)) else t
        original(getattr(known, "_host", known))
        if Trait.CPU_TENSORS not in context.traits:
            torch.set_default_device("cuda" if on_cuda else None)
            nonlocal chosen
            chosen = getattr(torch.cuda, name.rpartition(".")[2]) if on_cuda else None
            if on_cuda and not replaced:
                replaced.append(None)
                replace_construction()

    install(context, torch, "set_default_tensor_type", set_default_tensor_type, original)


@patch("torch.set_default_tensor_type", traits=Trait.ACCELERATES)
def host_default_type(context: Context) -> None:
    """torch.set_default_tensor_type needs torch's own CPU types, which are replaced by ones for the accelerator."""
    original = torch.set_default_tensor_type

    def set_default_tensor_type(t: Any) -> None:
        known = vars(torch).get(t.removeprefix("torch."), t) if isinstance(t, str) else t
        original(known._host if isinstance(known, HostTensorType) else t)

    install(context, torch, "set_default_tensor_type", set_default_tensor_type, original)
