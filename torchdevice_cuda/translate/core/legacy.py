"""The tensor types of old, ``torch.cuda.FloatTensor`` and its kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .requests import Translator

PREFIXES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")


def dtypes(module: str) -> dict[str, torch.dtype]:
    """The data type of each type of a module, by its full name: ``torch.cuda.FloatTensor``."""
    return {f"{module}.{prefix}Tensor": getattr(torch, f"{prefix}Tensor").dtype for prefix in PREFIXES}


class TensorType(type):
    """The type of a legacy tensor class: calls make tensors, ``isinstance`` looks at data type and device."""

    dtype: torch.dtype
    is_sparse: bool
    _host: Any
    _translator: Translator

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: D102
        torch.cuda._lazy_init()
        translator = cls._translator
        target = translator.device("cuda")
        made: torch.Tensor = cls._host(*args, **kwargs)
        if cls.is_sparse:
            return made
        return translator.marks.add(made) if target.type == "cpu" else made.to(target)

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, torch.Tensor) or instance.dtype is not cls.dtype:
            return False
        layout = torch.sparse_coo if cls.is_sparse else torch.strided
        if instance.layout is not layout:
            return False
        translator = cls._translator
        if translator.accelerator == "cpu":
            return instance in translator.marks or cls.is_sparse
        return instance.device.type == translator.accelerator


class HostTensorType(TensorType):
    """The type of ``torch.FloatTensor`` and its kin where calls that name no device go to the accelerator."""

    _enter: Callable[[torch.Tensor, tuple[Any, ...]], torch.Tensor]

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: D102
        return cls._enter(cls._host(*args, **kwargs), args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._host)


def legacy_class(translator: Translator, name: str, module: str, host: Any) -> type:
    """The class of a name in ``torch.cuda`` or ``torch.cuda.sparse``, over the one of the CPU."""
    namespace = {
        "__module__": module,
        "__doc__": f"Tensors of {host.dtype} on the CUDA device.",
        "dtype": host.dtype,
        "layout": host.layout,
        "is_cuda": True,
        "is_sparse": "sparse" in module,
        "_host": host,
        "_translator": translator,
    }
    return TensorType(name, (), namespace)


for _kind in (TensorType, HostTensorType):
    _kind.__name__ = _kind.__qualname__ = "tensortype"
