"""Calls of operators as the model of times sees them: shapes, types and scalars, no tensors."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Sequence
from typing import Any

_SIZES = {
    "float": 4, "c10::BFloat16": 2, "c10::Half": 2, "double": 8, "long int": 8, "int": 4, "short int": 2, "bool": 1,
    "unsigned char": 1, "signed char": 1, "c10::complex<float>": 8, "c10::complex<double>": 16, "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
}  # fmt: skip


def list_strides(sizes: Sequence[int], order: Iterable[int]) -> tuple[int, ...]:
    """Return the strides of dense memory in which these dimensions follow each other, the fastest first."""
    strides, stride = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = stride
        stride *= sizes[dim]
    return tuple(strides)


@dataclasses.dataclass(frozen=True)
class Shape:
    """A tensor's sizes and its type, by its name in C++, as PyTorch's profiler gives it."""

    sizes: tuple[int, ...]
    type: str
    strides: tuple[int, ...] = ()  # none if it is contiguous
    is_on_host: bool = False
    is_pinned: bool = False

    @functools.cached_property
    def is_channels_last(self) -> bool:
        """Return whether these are images, stored pixel by pixel."""
        return len(self.sizes) == 4 and self.strides == list_strides(self.sizes, (1, 3, 2, 0))

    @property
    def elements(self) -> int:
        """Return the number of elements."""
        return math.prod(self.sizes)

    @property
    def item_bytes(self) -> int:
        """Return the bytes of an element."""
        return _SIZES.get(self.type, 4)

    @property
    def bytes(self) -> int:
        """Return the bytes of all elements."""
        return self.elements * self.item_bytes


@dataclasses.dataclass(frozen=True)
class Call:
    """A call: for each argument a Shape, a tuple of them, or a scalar."""

    name: str  # without `aten::` and the overload
    arguments: tuple[Any, ...]
    is_tf32: bool = False  # products of float32 may round to TF32

    @functools.cached_property
    def tensors(self) -> tuple[Shape, ...]:
        """Return the tensors among the arguments, those of lists too."""
        found: list[Shape] = []
        for argument in self.arguments:
            found.extend(
                each for each in (argument if isinstance(argument, tuple) else (argument,)) if isinstance(each, Shape)
            )
        return tuple(found)

    def get(self, index: int, default: Any = None) -> Any:
        """Return a scalar argument, or the default where it is None or absent."""
        value = self.arguments[index] if index < len(self.arguments) else None
        return default if value is None else value

    @functools.cached_property
    def read_bytes(self) -> int:
        """Return the bytes of all tensors."""
        return sum(t.bytes for t in self.tensors)

    @functools.cached_property
    def broadcast(self) -> tuple[int, ...]:
        """Return the sizes to which the tensors broadcast; if they do not, the largest tensor's."""
        rank = max((len(t.sizes) for t in self.tensors), default=0)
        padded = [(1,) * (rank - len(t.sizes)) + t.sizes for t in self.tensors]
        if any(len(set(sizes) - {1}) > 1 for sizes in zip(*padded, strict=True)):
            return max(padded, key=math.prod)
        return tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))
