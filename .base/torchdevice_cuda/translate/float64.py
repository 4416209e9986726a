"""float64 and complex128 where the GPU has neither.

The setting says what becomes of them: ``downcast`` halves the precision, warns once per line of the program and counts;
``cpu`` leaves such tensors on the CPU in full precision; ``raise`` lets the GPU's own error through.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch

from .._compat import complex128_on_mps
from ..drivers import Driver
from ..drivers.refusals import NO_DOUBLE, NO_DTYPE, refusal
from ..report.departures import departures
from .callers import site
from .patches import Editor, patch
from .wrapping import Function, disguise, install

NARROW = {torch.float64: torch.float32, torch.complex128: torch.complex64}
#: Methods that only give a tensor of another dtype, and the dtype that their name implies.
_CONVERSIONS: dict[str, torch.dtype | None] = {"type": None, "double": torch.float64, "cdouble": torch.complex128}
#: Methods that convert to a dtype that the GPU has.
_FROM_FLOAT8 = ("float", "half", "bfloat16")
_CPU = torch.device("cpu")
_to = torch._C.TensorBase.to
_is_mps = torch._C.TensorBase.is_mps.__get__


class Precision:
    """The ``float64`` setting at work."""

    def __init__(self, choice: str, accelerator: str) -> None:
        self.choice = choice
        self.accelerator = torch.device(accelerator)
        self._warned: set[tuple[str, int]] = set()

    def refused(self, error: BaseException) -> bool:
        """Whether an error says that the GPU has no float64, and something is to be done about it."""
        return self.choice != "raise" and refusal(error) == NO_DOUBLE

    def settle(self, tensor: torch.Tensor) -> torch.Tensor:
        """Where a tensor of full precision on the CPU ends up that was asked for on the GPU."""
        narrow = NARROW.get(tensor.dtype)
        if narrow is None:
            return _to(tensor, self.accelerator)
        self.note(tensor.dtype)
        if self.choice == "cpu":
            return tensor
        return _to(_to(tensor, narrow), self.accelerator)

    def note(self, dtype: torch.dtype) -> None:
        """Count, and warn once per line of the program."""
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


def _home(value: Any) -> Any:
    """An argument on the CPU."""
    return _to(value, _CPU) if isinstance(value, torch.Tensor) else value


def _without_devices(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a conversion less the device: a name, an object, or the index of one."""
    named = args and (
        isinstance(args[0], (torch.device, int)) or (isinstance(args[0], str) and "Tensor" not in args[0])
    )
    args = args[1:] if named else args
    rest = {key: value for key, value in kwargs.items() if key != "device"}
    if args and args[0] is None:  # ``to(device, None, False)``, as modules say it: there is no such form without one
        return (), dict(zip(("non_blocking", "copy"), args[1:], strict=False)) | rest
    return args, rest


def conversion(editor: Editor, name: str) -> Callable[[Exception, torch.Tensor, tuple, dict[str, Any]], torch.Tensor]:
    """What to do about an error of a method that converts, moves or makes a tensor: float64 finds another way."""
    precision, translated = editor.precision, editor.errors.translated
    raw, implied, makes_new = getattr(torch._C.TensorBase, name), _CONVERSIONS.get(name), name.startswith("new_")

    def around(self: torch.Tensor, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        """A conversion that the GPU has no code for (of float8, say), on the CPU."""
        target = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.device)), self.device)
        args, kwargs = _without_devices(args, kwargs)
        return _to(raw(_home(self), *args, **kwargs), target)

    def resolve(error: Exception, self: torch.Tensor, args: tuple, kwargs: dict[str, Any]) -> torch.Tensor:
        if refusal(error) == NO_DTYPE and not makes_new and self.device.type != "cpu":
            return around(self, args, kwargs)
        if not precision.refused(error):
            raise translated(error) from None
        if name == "cuda":
            return precision.settle(_home(self))
        if not makes_new:
            args, kwargs = _without_devices(args, kwargs)
        else:
            kwargs = {key: value for key, value in kwargs.items() if key != "device"}
        if precision.choice == "downcast" and self.dtype not in NARROW and self.device.type != "cpu":
            wanted = [
                value for value in (*args, *kwargs.values()) if isinstance(value, torch.dtype) and value in NARROW
            ]
            precision.note(implied or (wanted[0] if wanted else torch.float64))
            if implied is not None:
                return _to(self, NARROW[implied])
            return raw(self, *map(_narrowed, args), **{key: _narrowed(value) for key, value in kwargs.items()})
        at_home = _home(self)
        if args or kwargs or implied is not None:
            at_home = raw(at_home, *args, **kwargs)
        return precision.settle(at_home)

    return resolve


#: Whether torch makes complex128 tensors on the GPU, where nothing can compute with them: then they are refused here.
LENIENT = complex128_on_mps(torch.__version__)


def refuse_complex128(made: torch.Tensor) -> None:
    """Raise what torch raises from 2.12 on for a complex128 tensor on the GPU."""
    if made.dtype is torch.complex128 and _is_mps(made):
        raise TypeError("Trying to convert ComplexDouble to the MPS backend but it does not have support for it.")


@patch("mps")
def conversions(editor: Editor, driver: Driver) -> None:
    """``x.double()`` and its kin, which the GPU refuses: the tensor becomes what the setting says.

    The GPU can hold float8 and has no code to convert it: ``x.float()`` goes through the CPU then.
    """
    for name in (*_CONVERSIONS, *_FROM_FLOAT8):
        original = getattr(torch.Tensor, name)
        wrapper = _converting(original, conversion(editor, name), LENIENT and name in _CONVERSIONS)
        install(editor, torch.Tensor, name, disguise(wrapper, original), original)


def _converting(original: Function, refused: Callable[..., torch.Tensor], lenient: bool) -> Function:
    def wrapper(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        try:
            made = original(self, *args, **kwargs) if args or kwargs else original(self)
            if lenient and isinstance(made, torch.Tensor):  # ``x.type()`` gives a name
                refuse_complex128(made)
            return made
        except (TypeError, RuntimeError) as error:
            return refused(error, self, args, kwargs)

    return wrapper


@patch("mps")
def checkpoints(editor: Editor, driver: Driver) -> None:
    """A checkpoint's float64 tensors are read on the CPU: a storage is bytes that only the tensor can read."""
    precision = editor.precision
    if precision.choice == "raise":
        return
    original = torch._utils._rebuild_tensor

    def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> torch.Tensor:
        on_gpu = storage._untyped_storage.device.type == driver.device_type
        if storage.dtype not in NARROW or not on_gpu:
            return original(storage, storage_offset, size, stride)
        at_home = torch.TypedStorage(wrap_storage=storage._untyped_storage.cpu(), dtype=storage.dtype, _internal=True)
        return precision.settle(original(at_home, storage_offset, size, stride))

    editor.set(torch._utils, "_rebuild_tensor", disguise(_rebuild_tensor, original))
