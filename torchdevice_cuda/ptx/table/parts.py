"""Parts of operands: ``%1.h0`` is a half of a register, ``%2.b7531`` four bytes of two of them.

A slot of a row names the kind of part that it takes. The code of the row has the operand's name with ``_part`` for it.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Kind(NamedTuple):
    """The parts that an operand may have, and the one that is meant where it has none, if it may have none."""

    parts: re.Pattern[str]
    default: str | None


KINDS = {
    "part": Kind(re.compile(r"|b[0-3]|h[01]"), ""),
    "merged": Kind(re.compile(r"b[0-3]|h[01]"), None),
    "mask2": Kind(re.compile(r"h(?!$)1?0?"), "h10"),
    "mask4": Kind(re.compile(r"b(?!$)3?2?1?0?"), "b3210"),
    "first2": Kind(re.compile(r"h[0-3]{2}"), "h10"),
    "second2": Kind(re.compile(r"h[0-3]{2}"), "h32"),
    "first4": Kind(re.compile(r"b[0-7]{4}"), "b3210"),
    "second4": Kind(re.compile(r"b[0-7]{4}"), "b7654"),
}
_BITS = {"b": 8, "h": 16}


def takes(kind: str, part: str) -> bool:
    """Return whether an operand of a kind may have a part, or none."""
    if not kind:
        return not part
    return bool(KINDS[kind].parts.fullmatch(part)) if part else KINDS[kind].default is not None


def write(kind: str, part: str) -> str:
    """Return a part in C++: its first bit and its size; a mask of lanes; or the lanes, a hexadecimal digit for each."""
    part = part or KINDS[kind].default or ""
    if kind.startswith("mask"):
        return str(sum(1 << int(digit) for digit in part[1:]))
    if kind.startswith(("first", "second")):
        return f"0x{part[1:]}"
    return f"{_BITS[part[0]] * int(part[1])}, {_BITS[part[0]]}" if part else "0, 32"
