"""Rows of the table of instructions, and how an instruction is matched with one.

The words of an instruction are its types, whose order counts, and its modifiers, whose order does not: public code
writes both ``ld.global.cg`` and ``ld.cg.global``. A pattern lists both:

- ``lo``: a word that must be there; ``ftz?``: one that may be, and whose name is ``true`` or ``false`` in the code;
- ``op:lo|hi``: one of several; ``op?:lo|hi``: one of them or none; ``any*:ca|cg``: any number of them.

Operands are ``d=t`` (written, of the type that the pattern calls t), ``a:t`` (read), ``c?:t`` (may be left out),
``a:t*4`` (a vector of four), ``@a:t*n`` (the address of n elements; ``@a:t!shared`` of shared memory whatever the
modifiers say), ``a:t%part`` (with a kind of part of ``parts.py``) and ``|p?=pred`` (joined to the operand before it).
Code with one operand that is written is an expression, other code is a statement; ``#`` stands for ``::host_ptx::``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from ..types import TYPES, widen

#: The rounding of an instruction that does not say one: to the nearest, and it may be contracted.
_ROUNDINGS = {"": "NEAR"}
_COUNTS = {"": 1, "v2": 2, "v4": 4, "v8": 8}
_ITEM = re.compile(r"(?P<name>\w+)(?P<many>[?*]?)(?::(?P<choices>\S+))?")
_OPERAND = re.compile(
    r"(?P<joined>\|?)(?P<address>@?)(?P<name>\w+)(?P<optional>\??)(?P<mark>[=:])(?P<type>[\w()]+)"
    r"(?:\*(?P<count>\w+))?(?:!(?P<space>\w+))?(?:%(?P<part>\w+))?"
)


@dataclasses.dataclass(frozen=True)
class Slot:
    """An operand of a row."""

    name: str
    type: str
    count: str
    is_written: bool
    is_optional: bool
    is_address: bool
    is_joined: bool
    space: str
    part: str


@dataclasses.dataclass(frozen=True)
class Row:
    """Instructions that are written as the same C++."""

    base: str
    pattern: str
    operands: str
    code: str
    #: only CUDA C++ has it: it needs a thread, its warp or its block
    needs_thread: bool = False

    def list_slots(self) -> list[Slot]:
        """Return the operands."""
        slots = []
        for text in self.operands.split():
            found = _OPERAND.fullmatch(text)
            assert found is not None, text
            slots.append(
                Slot(
                    found["name"],
                    found["type"],
                    found["count"] or "",
                    found["mark"] == "=",
                    bool(found["optional"]),
                    bool(found["address"]),
                    bool(found["joined"]),
                    found["space"] or "",
                    found["part"] or "",
                )
            )
        return slots


@dataclasses.dataclass(frozen=True)
class Match:
    """A row, with the words that an instruction has for the names of its pattern."""

    row: Row
    words: dict[str, str]

    def find_type(self, slot: Slot) -> str:
        """Return the name of an operand's type."""
        if found := re.fullmatch(r"wide\((\w+)\)", slot.type):
            return widen(self.words[found[1]])
        return self.words.get(slot.type, slot.type)

    def count(self, slot: Slot) -> int:
        """Return how many registers or elements an operand has."""
        if slot.count == "n":
            return _COUNTS[self.words.get("vec", "")]
        return int(slot.count or 1)


def _items(pattern: str) -> Iterator[tuple[str, str, list[str]]]:
    for text in pattern.split():
        found = _ITEM.fullmatch(text)
        assert found is not None, text
        yield found["name"], found["many"], (found["choices"] or found["name"]).split("|")


def match(row: Row, words: tuple[str, ...]) -> Match | None:
    """Return a row's match with the words behind an instruction's base, if it is one."""
    types = [word for word in words if word in TYPES]
    others = [word for word in words if word not in TYPES]
    given: dict[str, str] = {}
    for name, many, choices in _items(row.pattern):
        if choices[0] in TYPES:
            if not types or types[0] not in choices:
                return None
            given[name] = types.pop(0)
            continue
        found = [word for word in others if word in choices]
        if len(found) > 1 and many != "*":
            found = found[:1]
        if not found and not many:
            return None
        for word in found:
            others.remove(word)
        is_flag = many == "?" and choices == [name]
        given[name] = ("true" if found else "false") if is_flag else " ".join(found)
        if name == "rnd":
            given[name] = _ROUNDINGS.get(given[name], given[name].upper())
    return None if types or others else Match(row, given)
