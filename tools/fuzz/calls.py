"""The table of operators, and the calls that a row yields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from drawing import Draw


@dataclasses.dataclass(frozen=True)
class Call:
    """A call to try: an expression, how many tensors it gives, and what it does besides."""

    code: str
    op: str
    #: how many variables it assigns; none is a statement
    gives: int = 1
    writes: bool = False
    is_open: bool = False
    #: whether it does what cannot be taken back besides: it stays in the program, whatever it gives
    stays: bool = False


Row = Callable[[Draw], Call]
#: (weight, row), by the family that a command line may name
TABLE: dict[str, list[tuple[float, Row]]] = {}


def row(family: str, weight: float = 1.0) -> Callable[[Row], Row]:
    """Put a function that proposes calls into the table."""

    def add(function: Row) -> Row:
        TABLE.setdefault(family, []).append((weight, function))
        return function

    return add
