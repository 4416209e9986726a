"""``torch.cuda.FloatTensor`` and its kin: constructors, types and default types of old."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..drivers import Driver
from .factories import entering
from .patches import Editor, patch
from .wrapping import disguise, install

_NAMES = ["BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"]

_STORAGES = (torch.UntypedStorage, torch.TypedStorage)


class TensorType(type):
    """The type of a legacy tensor class: calls make tensors, ``isinstance`` looks at data type and device."""

    _host: Any
    _translator: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: D102
        torch.cuda._lazy_init()
        translator = cls._translator
        target = translator.device("cuda")
        if cls.is_sparse:
            return cls._host(*args, **kwargs)
        made = cls._host(*args, **kwargs)
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

    _enter: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:  # noqa: D102
        return cls._enter(cls._host(*args, **kwargs), args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls._host)


def _legacy_class(translator: Any, name: str, module: str, host: Any) -> type:
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


@patch("cpu", "mps", "virtual")
def classes(editor: Editor, driver: Driver) -> None:
    """torch's C++ makes these classes for CUDA builds to use; on others they refuse every call."""
    import torch.cuda.sparse

    for owner, host in ((torch.cuda, torch), (torch.cuda.sparse, torch.sparse)):
        for prefix in _NAMES:
            name = f"{prefix}Tensor"
            if hasattr(owner, name) and hasattr(host, name):
                made = _legacy_class(editor.translator, name, owner.__name__, getattr(host, name))
                editor.set(owner, name, made)


def _entering(editor: Editor) -> Callable[[torch.Tensor, tuple], torch.Tensor]:
    """What becomes of a tensor that was made of these arguments; one around a storage stays with it."""
    enter = entering(editor)

    def settle(made: torch.Tensor, args: tuple) -> torch.Tensor:
        return made if args and isinstance(args[0], _STORAGES) else enter(made)

    return settle


@patch("mps")
def host_classes(editor: Editor, driver: Driver) -> None:
    """``torch.FloatTensor(3)`` names no device: where such requests go to the accelerator, it does too."""
    if editor.translator.unasked is None:
        return
    enter = _entering(editor)
    for prefix in _NAMES:
        name = f"{prefix}Tensor"
        host = getattr(torch, name)
        namespace = {"__module__": "torch", "__doc__": host.__doc__, "_host": host, "_enter": staticmethod(enter)}
        shown = {key: getattr(host, key) for key in ("dtype", "layout", "is_cuda", "is_sparse")}
        editor.set(torch, name, HostTensorType(name, (), namespace | shown))


@patch("mps")
def construction(editor: Editor, driver: Driver) -> None:
    """The same for ``torch.Tensor(2, 3)``, of which many a parameter is made; subclasses make themselves."""
    if editor.translator.unasked is None:
        return
    enter, original = _entering(editor), torch.Tensor.__new__

    def __new__(cls: type, *args: Any, **kwargs: Any) -> Any:
        made = original(cls, *args, **kwargs)
        return enter(made, args) if cls is torch.Tensor else made

    editor.set(torch.Tensor, "__new__", staticmethod(disguise(__new__, original)))


@patch("cpu", "mps", "virtual")
def conversion(editor: Editor, driver: Driver) -> None:
    """``Tensor.type("torch.cuda.FloatTensor")`` converts and moves."""
    original = torch.Tensor.type
    by_name = {f"torch.cuda.{prefix}Tensor": getattr(torch, f"{prefix}Tensor").dtype for prefix in _NAMES}
    host_names = {f"torch.{prefix}Tensor": getattr(torch, f"{prefix}Tensor").dtype for prefix in _NAMES}
    translator, marks = editor.translator, editor.translator.marks

    def wrapper(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if isinstance(dtype, TensorType):
            dtype = f"{dtype.__module__}.{dtype.__name__}"
        if isinstance(dtype, str) and dtype in by_name:
            return self.to("cuda", by_name[dtype], non_blocking=non_blocking)
        # A type of the CPU's is a request for the CPU.
        if translator.unasked is not None and isinstance(dtype, str) and dtype in host_names:
            return self.to("cpu", host_names[dtype])
        converted = original(self, *(() if dtype is None else (dtype,)), **kwargs)
        # On the host a tensor of CUDA is of the CPU's type already; it still has to become another tensor.
        moves = converted is self and self in marks and isinstance(dtype, str) and dtype in host_names
        return converted.cpu() if moves else converted

    install(editor, torch.Tensor, "type", disguise(wrapper, original), original)


@patch("cpu", "mps", "virtual")
def default_type(editor: Editor, driver: Driver) -> None:
    """``torch.set_default_tensor_type`` with a CUDA type sets the data type, and CUDA as the default device."""
    original = torch.set_default_tensor_type
    translator = editor.translator

    def set_default_tensor_type(t: Any) -> None:
        name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
        on_cuda = name.startswith("torch.cuda.")
        known = getattr(torch, name.rpartition(".")[2], t) if on_cuda or isinstance(t, (str, TensorType)) else t
        original(getattr(known, "_host", known))
        if translator.accelerator != "cpu":
            torch.set_default_device("cuda" if on_cuda else None)

    install(editor, torch, "set_default_tensor_type", disguise(set_default_tensor_type, original), original)
