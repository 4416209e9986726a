"""The legacy tensor types, ``torch.cuda.FloatTensor`` and others."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from ...drivers.traits import Trait
from .requests import Translator

STORAGES = (torch.UntypedStorage, torch.TypedStorage)
#: torch's message, issued once per process.
_DISCOURAGED = (
    "The torch.cuda.*DtypeTensor constructors are no longer recommended. "
    "It's best to use methods such as torch.tensor(data, dtype=*, device='cuda') to create tensors."
)
PREFIXES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")


def dtypes(module: str) -> dict[str, torch.dtype]:
    """Return the dtype of each tensor type of a module, by its full name: ``torch.cuda.FloatTensor``."""
    return {f"{module}.{prefix}Tensor": getattr(torch, f"{prefix}Tensor").dtype for prefix in PREFIXES}


class TensorType(type):
    """The type of a legacy tensor class: calls create tensors, ``isinstance`` checks dtype and device."""

    _discouraged = False

    dtype: torch.dtype
    is_sparse: bool
    _host: Any
    _translator: Translator

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> TensorType:
        """Create a class for creating tensors; it refuses subclasses."""
        for base in bases:
            raise TypeError(f"type '{base.__module__}.{base.__qualname__}' is not an acceptable base type")
        return super().__new__(mcls, name, bases, namespace)

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: D102
        torch.cuda._lazy_init()
        translator = cls._translator
        if not TensorType._discouraged or torch.is_warn_always_enabled():
            TensorType._discouraged = True
            warnings.warn(_DISCOURAGED, stacklevel=2)
        target = translator.device(_on_cuda(kwargs.pop("device", None)))
        given = bool(args) and isinstance(args[0], (torch.Tensor, *STORAGES))
        if given and target.type != "cpu" and not cls.is_sparse:
            # Share memory that is on the device already; torch refuses other memory, as CUDA's class does.
            around: torch.Tensor = torch.empty(0, dtype=cls.dtype, device=target).new(*args, **kwargs)
            return around
        made: torch.Tensor = cls._host(*args, **kwargs)
        if target.type == "cpu":
            return made if cls.is_sparse else translator.marks.add(made)
        return made if given and cls.is_sparse else made.to(target)

    def __instancecheck__(cls, instance: Any) -> bool:
        layout = torch.sparse_coo if cls.is_sparse else torch.strided
        return _is_kind(instance, cls.dtype, layout) and cls._holds(instance)

    def _holds(cls, instance: torch.Tensor) -> bool:
        """Return whether a tensor of its kind is on CUDA to the program."""
        translator = cls._translator
        if Trait.CPU_TENSORS in translator.driver.traits:
            return instance in translator.marks or cls.is_sparse
        there = instance.device.type == translator.accelerator
        return there and not (translator.tracks_apparent_devices and translator.apparent_devices.is_cpu(instance))


def _is_kind(instance: Any, dtype: torch.dtype, layout: torch.layout) -> bool:
    return isinstance(instance, torch.Tensor) and instance.dtype is dtype and instance.layout is layout


def _on_cuda(device: Any) -> Any:
    """Return the device requested from a constructor, ``cuda`` if none is."""
    kind = "cuda" if device is None else torch.device(device).type
    if kind != "cuda":
        raise RuntimeError(f"legacy constructor expects device type: cuda but device type: {kind} was passed")
    return "cuda" if device is None else device


class HostTensorType(TensorType):
    """The type of ``torch.FloatTensor`` and others, if calls that name no device go to the accelerator."""

    _enter: Callable[[torch.Tensor, tuple[Any, ...]], torch.Tensor]

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: D102
        return cls._enter(cls._host(*args, **kwargs), args)

    def __instancecheck__(cls, instance: Any) -> bool:
        """Count redirected tensors as the CPU's type; operator results may count, too."""
        return _is_kind(instance, cls.dtype, torch.strided) and cls._holds(instance)

    def _holds(cls, instance: torch.Tensor) -> bool:
        kind, translator = instance.device.type, cls._translator
        return kind == "cpu" or (
            kind == translator.accelerator and not translator.apparent_devices.is_known_cuda(instance)
        )


def attributes(host: Any) -> dict[str, Any]:
    """Return the attributes that torch's C++ gives such a class: those of ``torch.Tensor``, its base, and its own."""
    members = {**vars(torch.Tensor.__base__), **vars(torch.Tensor)}
    for name in ("__dict__", "__weakref__", "__new__"):
        members.pop(name, None)  # each class has its own
    shown = ("dtype", "layout", "is_cuda", "is_xpu", "is_sparse", "is_sparse_csr")
    return members | {name: getattr(host, name) for name in shown} | {"__doc__": host.__doc__}


def legacy_class(translator: Translator, name: str, module: str, host: Any) -> type:
    """Return the class of a name in ``torch.cuda`` or ``torch.cuda.sparse``, based on the CPU's class."""
    own = {"__module__": module, "is_cuda": True, "_host": host, "_translator": translator}
    return TensorType(name, (), attributes(host) | own)


for _kind in (TensorType, HostTensorType):
    _kind.__module__, _kind.__name__, _kind.__qualname__ = "torch", "tensortype", "tensortype"
