"""``Tensor.type``, ``double``, ``float`` and others: dtype conversions, some of which move."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from ....drivers.traits import Trait
from ....wrapper_tensors.doubles import HostDoubleTensor, become
from ...core import legacy
from ...core.context import Context
from ...core.conversions import CONVERSIONS, OnRefusal, on_refusal
from ...core.precision import COMPLEX128, refuse_complex128
from ...core.registry import patch
from ...core.retry import rescued
from ...core.wrapping import Function, install

if TYPE_CHECKING:
    from ....native.interface import Handler, Rescue

#: Methods that convert to a dtype that the device supports.
_FROM_FLOAT8 = ("float", "half", "bfloat16")
#: Methods whose result may have a dtype that the device holds but cannot compute with: the result is checked.
_TO_COMPLEX128 = ("type", "cdouble")


@patch("torch.Tensor.<conversion>", traits=Trait.PARTIAL)
def conversions(context: Context) -> None:
    """The device refuses ``x.double()`` and similar conversions: the ``float64`` setting decides the result.

    The GPU can hold float8 but cannot convert it: ``x.float()`` then goes through the CPU.
    """
    carry = context.translator.apparent_devices.carry if Trait.ACCELERATES in context.traits else None
    for name in (*CONVERSIONS, *_FROM_FLOAT8):
        original, after_refusal = getattr(torch.Tensor, name), on_refusal(context, name)
        # The result needs no check in either case: it is not complex128 and has no apparent device.
        looking = carry is None and name not in _TO_COMPLEX128 and functools.partial(_looking, after_refusal)
        if not (looking and rescued(context, torch.Tensor, name, original, looking)):
            install(context, torch.Tensor, name, _converting(original, after_refusal, carry), original)


def _looking(after_refusal: OnRefusal, rescue: Rescue) -> tuple[Handler, bool]:
    def handler(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None, error: Any) -> Any:
        if not isinstance(error, (TypeError, RuntimeError)):
            return NotImplemented
        return after_refusal(error, args[0], args[1:], kwargs or {})

    return handler, False


def _converting(original: Function, after_refusal: OnRefusal, carry: Function | None) -> Function:
    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        try:
            made = original(self, *args, **kwargs) if args or kwargs else original(self)
            if isinstance(made, torch.Tensor) and made.dtype is COMPLEX128:  # ``x.type()`` returns a name
                refuse_complex128(made)
            return made if carry is None or made.__class__ is str else carry(self, made)
        except (TypeError, RuntimeError) as error:
            return after_refusal(error, self, args, kwargs)

    return wrapper


@patch("torch.Tensor.data", traits=Trait.PARTIAL)
def assigned_doubles(context: Context) -> None:
    """``x.data = y`` with a float64 ``y`` that is stored on the CPU: C++ would adopt a tensor without device memory."""
    if context.precision.choice != "cpu":
        return
    original = vars(torch._C.TensorBase)["data"]

    def assign(self: torch.Tensor, other: Any) -> None:
        if isinstance(other, HostDoubleTensor):
            become(self, other)
        else:
            original.__set__(self, other)

    context.editor.set(torch.Tensor, "data", property(original.__get__, assign, original.__delete__))


@patch("torch.Tensor.type", traits=Trait.SUBSTITUTE)
def legacy_types(context: Context) -> None:
    """``Tensor.type("torch.cuda.FloatTensor")`` converts and moves."""
    original = torch.Tensor.type
    by_name, host_names = legacy.dtypes("torch.cuda"), legacy.dtypes("torch")
    marks = context.translator.marks

    def wrapper(self: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
        if isinstance(dtype, legacy.TensorType):
            dtype = f"{dtype.__module__}.{dtype.__name__}"
        if isinstance(dtype, str) and dtype in by_name:
            return self.to("cuda", by_name[dtype], non_blocking=non_blocking)
        converted = original(self, *(() if dtype is None else (dtype,)), **kwargs)
        # On the host a CUDA tensor already has the CPU's type, but the result must be another tensor.
        moves = converted is self and self in marks and isinstance(dtype, str) and dtype in host_names
        return converted.cpu() if moves else converted

    install(context, torch.Tensor, "type", wrapper, original)


@patch("torch.Tensor.type", traits=Trait.ACCELERATES)
def host_types(context: Context) -> None:
    """``Tensor.type(torch.FloatTensor)`` is a request for the CPU like any other."""
    original, host_names = torch.Tensor.type, legacy.dtypes("torch")

    def wrapper(self: torch.Tensor, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        name = f"torch.{dtype.__name__}" if isinstance(dtype, legacy.HostTensorType) else dtype
        if isinstance(name, str) and name in host_names:
            return self.to("cpu", host_names[name])
        return original(self, *(() if dtype is None else (dtype, *args)), **kwargs)

    install(context, torch.Tensor, "type", wrapper, original)


@patch("torch.Tensor.type", traits=Trait.DISGUISED)
def type_names(context: Context) -> None:
    """``x.type()`` must name its class in ``torch.cuda`` or ``torch``."""
    original = torch.Tensor.type
    prefix = f"torch.{context.driver.device_type}."
    believed_cpu = (
        context.translator.apparent_devices.is_cpu if Trait.ACCELERATES in context.traits else lambda _: False
    )

    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        found = original(self, *args, **kwargs)
        if found.__class__ is not str or not found.startswith(prefix):
            return found
        return ("torch." if believed_cpu(self) else "torch.cuda.") + found[len(prefix) :]

    install(context, torch.Tensor, "type", wrapper, original)
