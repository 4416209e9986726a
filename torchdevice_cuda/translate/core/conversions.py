"""Tensor methods that convert, move or create: what happens if the accelerator refuses the dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ...fallback.cpu import place_quantized
from ...fallback.refusals import NARROW, NO_DTYPE, NO_NESTED, NO_QUANTIZED, refusal
from ...wrapper_tensors import nested
from .context import Context

#: Methods that only convert to another dtype, and the dtype that their name implies.
CONVERSIONS: dict[str, torch.dtype | None] = {"type": None, "double": torch.float64, "cdouble": torch.complex128}
_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
#: The handler of a tensor method's error: ``(error, tensor, args, kwargs)``.
OnRefusal = Callable[[Exception, torch.Tensor, tuple[Any, ...], dict[str, Any]], torch.Tensor]


def _narrowed(value: Any) -> Any:
    """Return an argument with float64 replaced by float32 and complex128 by complex64."""
    return NARROW.get(value, value) if isinstance(value, torch.dtype) else value


def _without_devices(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Return the arguments of a conversion without the device, which may be a name, an object or an index."""
    named = args and (
        isinstance(args[0], (torch.device, int)) or (isinstance(args[0], str) and "Tensor" not in args[0])
    )
    args = args[1:] if named else args
    rest = {key: value for key, value in kwargs.items() if key != "device"}
    # ``to(device, None, False)``, as modules call it: without a device this form does not exist
    if args and args[0] is None:
        return (), dict(zip(("non_blocking", "copy"), args[1:], strict=False)) | rest
    return args, rest


def leaf(
    admit: Callable[[torch.Tensor], torch.Tensor],
    make: Callable[..., torch.Tensor],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> torch.Tensor:
    """Return a new tensor, created on the CPU and moved to the GPU, as the leaf that gets the gradient."""
    if not kwargs.get("requires_grad"):
        return admit(make(*args, **kwargs))
    return admit(make(*args, **{**kwargs, "requires_grad": False})).requires_grad_()


def on_refusal(context: Context, name: str) -> OnRefusal:
    """Return the handler of errors of a method that converts, moves or creates a tensor: it handles float64."""
    precision, translated = context.precision, context.errors.translated
    raw: Callable[..., torch.Tensor] = getattr(torch._C.TensorBase, name)
    implied, makes_new = CONVERSIONS.get(name), name.startswith("new_")

    def around(self: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """Convert on the CPU if the device cannot (float8, for example)."""
        target = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.device)), self.device)
        args, kwargs = _without_devices(args, kwargs)
        return _to(raw(_to(self, _CPU), *args, **kwargs), target)

    def resolve(error: Exception, self: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        kind = refusal(error)
        if kind == NO_QUANTIZED and self.device.type == "cpu":
            return place_quantized(_to(self, _CPU, copy=True), precision.accelerator, error)
        if kind == NO_NESTED and self.device.type == "cpu":
            args, kwargs = _without_devices(args, kwargs)
            converted = raw(self, *args, **kwargs) if name == "to" and (args or kwargs) else self
            return nested.moved(converted, precision.accelerator, error)
        if kind == NO_DTYPE and not makes_new and self.device.type != "cpu":
            return around(self, args, kwargs)
        if not precision.is_refusal(error):
            raise translated(error) from None
        if name == "cuda":
            return precision.admit(_to(self, _CPU))
        if not makes_new:
            args, kwargs = _without_devices(args, kwargs)
        else:
            kwargs = {key: value for key, value in kwargs.items() if key != "device"}
        if precision.choice == "downcast" and self.dtype not in NARROW and self.device.type != "cpu":
            wanted = [
                value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype) and value in NARROW
            ]
            precision.count(implied or (wanted[0] if wanted else torch.float64))
            if implied is not None:
                return _to(self, NARROW[implied])
            return raw(self, *map(_narrowed, args), **{key: _narrowed(value) for key, value in kwargs.items()})
        on_cpu = _to(self, _CPU)
        if makes_new:
            return leaf(precision.admit, raw, (on_cpu, *args), kwargs)
        if args or kwargs or implied is not None:
            on_cpu = raw(on_cpu, *args, **kwargs)
        return precision.admit(on_cpu)

    return resolve
