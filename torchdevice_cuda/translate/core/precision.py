"""float64 and complex128 if the accelerator has neither.

The setting selects the treatment: ``downcast`` halves the precision, warns once per line of the program and counts;
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
    """Applies the ``float64`` setting."""

    def __init__(self, choice: str, accelerator: str, partial: bool) -> None:
        self.choice = choice
        self._partial = partial
        self.accelerator = torch.device(accelerator)
        self._warned: set[tuple[str, int]] = set()

    def is_refusal(self, error: BaseException) -> bool:
        """Return whether an error means that the device has no float64, and the setting handles that."""
        return self.choice != "raise" and refusal(error) == NO_DOUBLE

    def admit(self, tensor: torch.Tensor) -> torch.Tensor:
        """Move a CPU tensor to the accelerator, or to where its dtype allows."""
        narrow = NARROW.get(tensor.dtype) if self._partial else None
        if narrow is None:
            return _to(tensor, self.accelerator)
        self.count(tensor.dtype)
        if self.choice == "cpu":
            return doubles.entered(tensor, self.accelerator)
        return _to(_to(tensor, narrow), self.accelerator)

    def count(self, dtype: torch.dtype) -> None:
        """Count a loss of precision, or a tensor that stayed on the CPU, and warn once per line of the program."""
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


#: torch creates such tensors on the GPU if strides are given (copies, most conversions), and until 2.11 always, though
#: nothing can compute with them. Functions that create tensors check for it, which costs 25 ns.
COMPLEX128 = torch.complex128


def refuse_complex128(made: torch.Tensor) -> None:
    """Raise torch's error for a dtype that the GPU lacks, if the tensor is on the GPU."""
    if _is_mps(made) and made.__class__ is not doubles.HostDoubleTensor:
        raise TypeError("Trying to convert ComplexDouble to the MPS backend but it does not have support for it.")
