"""Tiles while C++ is written: arrays, or expressions of an element's indices that are not stored anywhere."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from .ir import Type, Unsupported

#: C++ types of elements.
C_TYPES = {
    "i1": "bool", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "index": "int64_t",
    "f16": "f16", "bf16": "bf16", "f32": "float", "f64": "double", "f8E5M2": "f8e5m2", "f8E4M3FN": "f8e4m3",
    "f8E4M3B11FNUZ": "f8e4b15", "f8E4M3FNUZ": "f8e4b8", "f8E5M2FNUZ": "f8e5b16",
}  # fmt: skip
_BYTES = {"i1": 1, "i8": 1, "i16": 2, "f16": 2, "bf16": 2, "i32": 4, "f32": 4}


class _Strided:
    """The distance of elements that is the same everywhere, but known only when the kernel runs."""


STRIDED = _Strided()
#: The distance of neighbours along a dimension; ``None`` where it is not known to be the same everywhere.
Step = int | _Strided | None


def read_descriptor(element: str) -> tuple[tuple[int, ...], str]:
    """Return the shape and the elements of a descriptor's block; integers of some releases have a sign."""
    *sizes, inner = element[5:-1].split(",")[0].split("x")
    return tuple(map(int, sizes)), re.sub(r"^[su](i\d+)$", r"\1", inner)


def name_type(element: str) -> str:
    """Return the C++ type of an element."""
    if element.startswith("ptr<"):
        return f"{name_type(element[4:-1])}*"
    if element.startswith("desc<"):
        shape, inner = read_descriptor(element)
        return f"Descriptor<{name_type(inner)}, {len(shape)}>"
    if element not in C_TYPES:
        raise Unsupported(f"elements of the type {element}")
    return C_TYPES[element]


def count_bytes(element: str) -> int:
    """Return the size of an element."""
    return 1 if element.startswith("f8") else _BYTES.get(element, 8)


def is_float(element: str) -> bool:
    """Return whether elements are real numbers."""
    return element[0] in "fb"


class Nest:
    """Loops that are being written: for each, what is computed outside of the next."""

    def __init__(self, indices: Sequence[str], shape: tuple[int, ...] = (), flat: str = "") -> None:
        """`flat`: the index of one loop in the place of several over a shape, from which `indices` are computed."""
        self.indices, self.shape, self.flat = list(indices), shape, flat
        self.bodies: list[list[str]] = [[] for _ in range(2 if flat else len(self.indices) + 1)]
        self.known: dict[tuple[int, tuple[str, ...]], str] = {}

    def find_level(self, at: Sequence[str]) -> int:
        """Return the loop in which an element's value is known: the innermost whose index it uses."""
        used = set(re.findall(r"[A-Za-z_]\w*", " ".join(at)))
        if self.flat:
            return int(not used.isdisjoint(self.indices))
        return max((level + 1 for level, index in enumerate(self.indices) if index in used), default=0)

    def flatten(self, at: Sequence[str], shape: tuple[int, ...]) -> str:
        """Return the place of an element in an array."""
        if self.flat and shape == self.shape and list(at) == self.indices:
            return self.flat
        return flatten(at, shape)

    @property
    def inner(self) -> list[str]:
        """The innermost body."""
        return self.bodies[-1]


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of device memory that is read where its elements are used: a pointer to it, or to a copy of it."""

    pointer: str
    copy: str
    size: int


Formula = Callable[[Sequence[str], Nest], str]


@dataclasses.dataclass(eq=False)
class Tile:
    """A value: a C++ variable or array, a literal, or a formula of the indices."""

    type: Type
    name: str = ""
    literal: str = ""
    formula: Formula | None = None
    steps: tuple[Step, ...] = ()
    #: steps hold unless a remainder wraps around
    wraps: bool = False
    #: along the last dimension, no element is true behind one that is false
    falls: bool = False
    #: how many operations an element takes
    cost: int = 0
    #: the number of a literal, where it is an integer
    number: int | None = None
    #: the rows of device memory that elements are read from where they are used
    rows: frozenset[Row] = frozenset()

    def __post_init__(self) -> None:
        if not self.steps:
            self.steps = (None,) * len(self.type.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        return self.type.shape

    @property
    def is_array(self) -> bool:
        """Whether elements are stored."""
        return self.formula is None and not self.literal and bool(self.shape)

    @property
    def is_uniform(self) -> bool:
        """Whether all elements are the same."""
        return all(step == 0 or size == 1 for step, size in zip(self.steps, self.shape, strict=True))

    @property
    def last_step(self) -> Step:
        """The step along the last dimension."""
        return self.steps[-1] if self.shape[-1] != 1 else 0

    @property
    def text(self) -> str:
        """A scalar in C++."""
        return self.literal or self.name


def split_index(flat: str, indices: Sequence[str], shape: Sequence[int]) -> list[str]:
    """Return lines that define the indices of a place in an array."""
    lines, rest = list[str](), 1
    for index, size in zip(reversed(indices), reversed(shape), strict=True):
        lines.append(f"const int {index} = {flat} / {rest} % {size};")
        rest *= size
    return lines


def flatten(at: Sequence[str], shape: Sequence[int]) -> str:
    """Return the place of an element in an array."""
    flat = ""
    for index, size in zip(at, shape, strict=True):
        flat = index if not flat else f"({flat})*{size}+{index}"
    return flat or "0"
