"""``x.data = y`` of tensors of ours: C++ takes over what it knows of, and what they hold besides goes with it."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

_data = vars(torch._C.TensorBase)["data"]
_INCOMPATIBLE = (
    "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
)


def assign(self: torch.Tensor, other: Any, held: tuple[str, ...]) -> None:
    """Make a tensor of ours the same as another of its class; ``held`` are the attributes that it consists of."""
    if isinstance(other, torch.Tensor) and type(other) is not type(self):
        raise RuntimeError(_INCOMPATIBLE)
    _data.__set__(self, other)
    for name in held:
        setattr(self, name, getattr(other, name))


class Assigned(torch.Tensor):
    """A tensor that another of its class can be assigned to."""

    #: the attributes that it consists of
    _held: ClassVar[tuple[str, ...]]

    @property
    def data(self) -> torch.Tensor:
        """The same tensor, without its history."""
        return self.detach()

    @data.setter
    def data(self, other: Any) -> None:
        assign(self, other, self._held)
