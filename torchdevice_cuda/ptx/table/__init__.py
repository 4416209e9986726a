"""The instructions that are known, by family."""

from __future__ import annotations

from ..parser import Instruction, Refused
from . import comparisons, conversions, floats, integers, matrices, memory, threads, video
from .rows import Match, Row, match

FAMILIES = {
    "arithmetic of real numbers": floats.ROWS,
    "integers, bits and logic": integers.ROWS,
    "comparisons and selections": comparisons.ROWS,
    "moves and conversions": conversions.ROWS,
    "memory": memory.ROWS,
    "threads": threads.ROWS,
    "tensor cores": matrices.ROWS,
    "video": video.ROWS,
}
_BY_BASE: dict[str, list[Row]] = {}
for _rows in FAMILIES.values():
    for _row in _rows:
        _BY_BASE.setdefault(_row.base, []).append(_row)


def is_known(base: str) -> bool:
    """Return whether the table has instructions whose name begins with a word."""
    return base in _BY_BASE


def find(instruction: Instruction) -> list[Match]:
    """Return the rows that an instruction's name matches; they differ in their operands. Refuse unknown ones."""
    found = [one for row in _BY_BASE.get(instruction.base, ()) if (one := match(row, instruction.words)) is not None]
    if not found:
        raise Refused(f"the PTX instruction {instruction.opcode}")
    return found
