"""float64 and complex128 where the accelerator has neither.

The setting says what becomes of them: ``downcast`` halves the precision, warns once per line of the program and counts;
``cpu`` leaves such tensors on the CPU in full precision; ``raise`` lets the device's own error through.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..._compat import complex128_on_mps
from ...fallback.refusals import NARROW, NO_DOUBLE, NO_DTYPE, refusal
from ...report.departures import departures
from .callers import site

if TYPE_CHECKING:
    from .context import Context

#: Methods that only give a tensor of another dtype, and the dtype that their name implies.
CONVERSIONS: dict[str, torch.dtype | None] = {"type": None, "double": torch.float64, "cdouble": torch.complex128}
_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
_is_mps: Callable[[torch.Tensor], bool] = vars(torch._C.TensorBase)["is_mps"].__get__

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
#: What is done about an error of a tensor's method: ``(error, tensor, args, kwargs)``.
OnRefusal = Callable[[Exception, torch.Tensor, tuple[Any, ...], dict[str, Any]], torch.Tensor]


class Precision:
    """The ``float64`` setting at work."""

    def __init__(self, choice: str, accelerator: str) -> None:
        self.choice = choice
        self.accelerator = torch.device(accelerator)
        self._warned: set[tuple[str, int]] = set()

    def is_refusal(self, error: BaseException) -> bool:
        """Whether an error says that the device has no float64, and something is to be done about it."""
        return self.choice != "raise" and refusal(error) == NO_DOUBLE

    def admit(self, tensor: torch.Tensor) -> torch.Tensor:
        """Take a tensor of the CPU to the accelerator, or to where its dtype lets it end up."""
        narrow = NARROW.get(tensor.dtype)
        if narrow is None:
            return _to(tensor, self.accelerator)
        self.count(tensor.dtype)
        if self.choice == "cpu":
            return tensor
        return _to(_to(tensor, narrow), self.accelerator)

    def count(self, dtype: torch.dtype) -> None:
        """Precision was lost, or a tensor stayed behind: count it, and warn once per line of the program."""
        name = str(dtype).removeprefix("torch.")
        where = "cpu" if self.choice == "cpu" else str(NARROW[dtype]).removeprefix("torch.")
        departures.counter(name, where, "the GPU has no " + name)()
        file, line = site()
        if (file, line) in self._warned:
            return
        self._warned.add((file, line))
        became = "stays on the CPU" if self.choice == "cpu" else f"became {where}"
        warnings.warn_explicit(
            f"the GPU has no {name}: the tensor {became} (--float64 chooses: downcast, cpu, raise)",
            UserWarning,
            file,
            line,
        )


def _narrowed(value: Any) -> Any:
    """An argument, float64 replaced by float32 and complex128 by complex64."""
    return NARROW.get(value, value) if isinstance(value, torch.dtype) else value


def _without_devices(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """The arguments of a conversion less the device: a name, an object, or the index of one."""
    named = args and (
        isinstance(args[0], (torch.device, int)) or (isinstance(args[0], str) and "Tensor" not in args[0])
    )
    args = args[1:] if named else args
    rest = {key: value for key, value in kwargs.items() if key != "device"}
    if args and args[0] is None:  # ``to(device, None, False)``, as modules say it: there is no such form without one
        return (), dict(zip(("non_blocking", "copy"), args[1:], strict=False)) | rest
    return args, rest


def on_refusal(context: Context, name: str) -> OnRefusal:
    """What to do about an error of a method that converts, moves or makes a tensor: float64 finds another way."""
    precision, translated = context.precision, context.errors.translated
    raw: Callable[..., torch.Tensor] = getattr(torch._C.TensorBase, name)
    implied, makes_new = CONVERSIONS.get(name), name.startswith("new_")

    def around(self: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        """A conversion that the device has no code for (of float8, say), on the CPU."""
        target = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.device)), self.device)
        args, kwargs = _without_devices(args, kwargs)
        return _to(raw(_to(self, _CPU), *args, **kwargs), target)

    def resolve(error: Exception, self: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        if refusal(error) == NO_DTYPE and not makes_new and self.device.type != "cpu":
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
        if args or kwargs or implied is not None:
            on_cpu = raw(on_cpu, *args, **kwargs)
        return precision.admit(on_cpu)

    return resolve


#: Whether torch makes complex128 tensors on the GPU, where nothing can compute with them: then they are refused here.
LENIENT = complex128_on_mps(torch.__version__)


def refuse_complex128(made: torch.Tensor) -> None:
    """Raise what torch raises from 2.12 on for a complex128 tensor on the GPU."""
    if made.dtype is torch.complex128 and _is_mps(made):
        raise TypeError("Trying to convert ComplexDouble to the MPS backend but it does not have support for it.")
