"""float64 and complex128 where the accelerator has neither.

The setting says what becomes of them: ``downcast`` halves the precision, warns once per line of the program and counts;
``cpu`` keeps such tensors on the CPU in full precision, and shows them as the GPU's; ``raise`` lets the device's own
error through.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from ...fallback.refusals import NARROW, NO_DOUBLE, refusal
from ...report.departures import departures
from ...wrapper_tensors import doubles
from .callers import site

_to = torch._C.TensorBase.to
_is_mps: Callable[[torch.Tensor], bool] = vars(torch._C.TensorBase)["is_mps"].__get__


class Precision:
    """The ``float64`` setting at work."""

    def __init__(self, choice: str, accelerator: str, partial: bool) -> None:
        self.choice = choice
        self._partial = partial
        self.accelerator = torch.device(accelerator)
        self._warned: set[tuple[str, int]] = set()

    def is_refusal(self, error: BaseException) -> bool:
        """Return whether an error says that the device has no float64, and something is to be done about it."""
        return self.choice != "raise" and refusal(error) == NO_DOUBLE

    def admit(self, tensor: torch.Tensor) -> torch.Tensor:
        """Take a tensor of the CPU to the accelerator, or to where its dtype lets it end up."""
        narrow = NARROW.get(tensor.dtype) if self._partial else None
        if narrow is None:
            return _to(tensor, self.accelerator)
        self.count(tensor.dtype)
        if self.choice == "cpu":
            return doubles.entered(tensor, self.accelerator)
        return _to(_to(tensor, narrow), self.accelerator)

    def count(self, dtype: torch.dtype) -> None:
        """Precision was lost, or a tensor stayed behind: count it, and warn once per line of the program."""
        name = str(dtype).removeprefix("torch.")
        where = "cpu" if self.choice == "cpu" else str(NARROW[dtype]).removeprefix("torch.")
        row = (name, where, "the GPU has no " + name)
        departures.counter(*row)()
        file, line = site()
        departures.first_at(row, file, line)
        if (file, line) in self._warned:
            return
        self._warned.add((file, line))
        became = "is kept and computed on the CPU" if self.choice == "cpu" else f"became {where}"
        warnings.warn_explicit(
            f"the GPU has no {name}: the tensor {became} (--float64 chooses: downcast, cpu, raise)",
            UserWarning,
            file,
            line,
        )


#: What torch makes on the GPU all the same, where strides are given (copies, most conversions) on every version and
#: until 2.11 everywhere, though nothing can compute with it. Whoever makes tensors there asks for it, at 25 ns.
COMPLEX128 = torch.complex128


def refuse_complex128(made: torch.Tensor) -> None:
    """Raise what torch raises elsewhere for a tensor of a dtype that the GPU has not, if it is on the GPU."""
    if _is_mps(made) and made.__class__ is not doubles.HostDoubleTensor:
        raise TypeError("Trying to convert ComplexDouble to the MPS backend but it does not have support for it.")
