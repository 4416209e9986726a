"""The operations of a kernel, as the parser finds them in TTIR."""

from __future__ import annotations

import dataclasses
import math
import re


class Unsupported(Exception):
    """What a kernel has that cannot be compiled here; the message names it."""


class Refused(Unsupported):
    """What Triton's interpreter does not run either."""


@dataclasses.dataclass(frozen=True)
class Type:
    """A scalar's type, or a tile's: its shape and the type of its elements, such as ``f32`` or ``ptr<f32>``."""

    shape: tuple[int, ...]
    element: str

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def is_pointer(self) -> bool:
        """Whether elements are addresses."""
        return self.element.startswith("ptr<")

    @property
    def pointee(self) -> str:
        """The type of the elements that a pointer leads to."""
        return self.element[4:-1]

    def with_element(self, element: str) -> Type:
        """Return the type of a tile of the same shape."""
        return Type(self.shape, element)


@dataclasses.dataclass(eq=False)
class Value:
    """What an operation computes, or an argument of a block."""

    type: Type


@dataclasses.dataclass(eq=False)
class Block:
    """Operations in their order."""

    args: list[Value]
    ops: list[Op] = dataclasses.field(default_factory=list)

    @property
    def last(self) -> Op:
        """The operation that ends the block."""
        return self.ops[-1]


@dataclasses.dataclass(eq=False)
class Op:
    """One operation; `text` is the rest of its line, for attributes."""

    name: str
    operands: list[Value]
    results: list[Value]
    text: str = ""
    line: str = ""
    regions: list[Block] = dataclasses.field(default_factory=list)
    #: the labels of the blocks of a region that has several, which are its regions here
    labels: list[str] = dataclasses.field(default_factory=list)
    #: the labels that a branch leads to, with the arguments of their blocks
    targets: list[tuple[str, list[Value]]] = dataclasses.field(default_factory=list)

    def read_int(self, key: str) -> int:
        """Return an attribute that is a number."""
        return int(self.find(rf"\b{key} = (-?\d+)"))

    def find(self, pattern: str) -> str:
        """Return what a pattern's group matches in the text."""
        found = re.search(pattern, self.text)
        if found is None:
            raise Unsupported(f"{self.name} without {pattern!r}: {self.text}")
        return found[1]


@dataclasses.dataclass(eq=False)
class Function:
    """A kernel: its blocks by label, the first one first."""

    name: str
    args: list[Value]
    blocks: dict[str, Block]
