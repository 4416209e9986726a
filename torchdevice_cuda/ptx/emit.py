"""Write a statement of inline assembly as C++."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Protocol

from . import table
from .parser import Address, Body, Immediate, Instruction, Operand, Refused, Register, Vector
from .table import parts
from .table.rows import Match, Slot
from .types import CONTAINERS, TYPES, widen

_PLAIN = re.compile(r"u?int\d+_t|float|double|bool")
_ORDERED = {"volatile", "relaxed", "acquire", "release", "acq_rel"}
_FLOAT_FORMATS = {"f32": "<f", "f64": "<d", "f16": "<e"}


class Dialect(Protocol):
    """What CUDA C++ and Triton write differently."""

    #: whether there are threads, warps and blocks
    has_threads: bool

    def write_pointer(self, space: str, address: str, c_type: str, count: int) -> str:
        """Return C++ for a pointer to elements in a space of memory."""

    def write_special(self, name: str) -> str:
        """Return C++ for a special register, or nothing."""

    def write_carry(self) -> str:
        """Return a declaration of ``cc``, the flag of additions with a carry."""


def write(body: Body, places: Sequence[tuple[str, int]], dialect: Dialect) -> list[str]:
    """Return the lines of a statement; `places` are the variables of its operands and their sizes."""
    return _Writer(body, places, dialect).write()


def _name_type(c_type: str) -> str:
    return c_type if _PLAIN.fullmatch(c_type) else f"::host_ptx::{c_type}"


class _Writer:
    def __init__(self, body: Body, places: Sequence[tuple[str, int]], dialect: Dialect) -> None:
        self._body, self._dialect = body, dialect
        self._variables = {f"${number}": place for number, place in enumerate(places)}
        self._lines: list[str] = []
        for number, (name, bits) in enumerate(body.registers.items()):
            variable = f"ptx_r{number}"
            self._variables[name] = variable, bits
            self._lines.append(f"{CONTAINERS[bits]} {variable} = 0;")

    def write(self) -> list[str]:
        """Return all lines."""
        carries = [one for one in self._body.instructions if "cc" in one.words or one.base in ("addc", "subc", "madc")]
        if carries:
            self._lines.append(f"{self._dialect.write_carry()} bool unused = false; (void)unused;")
        for instruction in self._body.instructions:
            try:
                self._lines.append(self._write_guarded(instruction))
            except Refused as error:
                text = str(error)
                named = text if instruction.opcode in text else f"{text}, of the PTX instruction {instruction.opcode}"
                raise Refused(named) from None
        return self._lines

    def _write_guarded(self, instruction: Instruction) -> str:
        if instruction.base == "mov" and any(isinstance(one, Vector) for one in instruction.operands):
            text = self._write_packing(instruction)
        else:
            text = self._write_matched(instruction)
        if instruction.guard is None:
            return f"{{ {text} }}"
        return f"if ({self._read(instruction.guard, 'pred')}) {{ {text} }}"

    # ------------------------------------------------------------- registers
    def _find(self, register: Register) -> tuple[str, int]:
        found = self._variables.get(register.name)
        if found is None:
            raise Refused(f"the register {register.name}, which is not declared,")
        return found

    def _read(self, operand: Operand, type_: str) -> str:
        """Return C++ for an operand that is read."""
        kind = TYPES[type_]
        c_type = _name_type(kind.c_type)
        if isinstance(operand, Immediate):
            return _write_immediate(operand, type_, c_type)
        if not isinstance(operand, Register):
            raise Refused("a vector or an address where a register is expected")
        special = self._read_special(operand.name)
        if special:
            return f"::host_ptx::get<{c_type}>({CONTAINERS[max(kind.bits, 32)]}({special}))"
        variable, bits = self._find(operand)
        if bits < kind.bits:
            raise Refused(f"an operand of {bits} bits for .{type_}")
        sign = "!" if operand.is_negated else ""
        return f"{sign}::host_ptx::get<{c_type}>({variable})"

    def _read_special(self, name: str) -> str:
        if not name.startswith("%") or name in self._variables:
            return ""
        special = table.threads.CLOCKS.get(name) or self._dialect.write_special(name)
        if not special:
            raise Refused(f"the special register {name}")
        return special

    def _write_back(self, operand: Operand, value: str) -> str:
        """Return a statement that writes a value into a register."""
        if not isinstance(operand, Register):
            raise Refused("something that is no register where a result is written")
        if operand.name == "_":
            return ""
        return f"::host_ptx::put({self._find(operand)[0]}, {value});"

    # ---------------------------------------------------------- instructions
    def _write_packing(self, instruction: Instruction) -> str:
        """Write ``mov`` of a register from or to its parts."""
        if len(instruction.operands) != 2 or len(instruction.words) != 1 or instruction.words[0] not in TYPES:
            raise Refused(f"the PTX instruction {instruction.opcode}")
        to, of = instruction.operands
        type_ = instruction.words[0]
        parts = to if isinstance(to, Vector) else of
        assert isinstance(parts, Vector)
        bits = TYPES[type_].bits // len(parts.items)
        if bits * len(parts.items) != TYPES[type_].bits or bits not in CONTAINERS:
            raise Refused(f"{len(parts.items)} parts of .{type_}")
        part = f"b{bits}"
        whole = CONTAINERS[TYPES[type_].bits]
        if isinstance(to, Vector):
            texts = [
                self._write_back(one, f"{CONTAINERS[bits]}(whole >> {index * bits})")
                for index, one in enumerate(to.items)
            ]
            return f"const {whole} whole = {self._read(of, f'b{TYPES[type_].bits}')}; {' '.join(texts)}"
        shifted = [f"{whole}({self._read(one, part)}) << {index * bits}" for index, one in enumerate(parts.items)]
        return self._write_back(to, f"{whole}({' | '.join(shifted)})")

    def _write_matched(self, instruction: Instruction) -> str:
        found = table.find(instruction)
        for one in found:
            assigned = _assign(one, instruction)
            if assigned is None:
                continue
            if one.row.needs_thread and not self._dialect.has_threads:
                raise Refused(f"the PTX instruction {instruction.opcode}, which needs the threads of CUDA C++,")
            return self._write_row(one, assigned)
        given = [one.part for one in instruction.operands if isinstance(one, Register) and one.part]
        parts_given = f" with the parts {', '.join(f'.{part}' for part in given)}" if given else ""
        raise Refused(f"{len(instruction.operands)} operands{parts_given}")

    def _write_row(self, one: Match, assigned: list[tuple[Slot, Operand | None]]) -> str:
        fields, before, behind = self._list_words(one), list[str](), list[str]()
        space = one.words.get("space", "")
        for slot, operand in assigned:
            type_, count = one.find_type(slot), one.count(slot)
            if slot.part:
                fields[f"{slot.name}_part"] = parts.write(slot.part, _find_part(operand))
            c_type, local = _name_type(TYPES[type_].c_type), f"ptx_{slot.name}"
            if slot.is_written:
                is_array = bool(slot.count)
                before.append(f"{c_type} {local}[{count}];" if is_array else f"{c_type} {local} = {c_type}();")
                fields[slot.name] = local
                if operand is not None:
                    for index, item in enumerate(_list_items(operand, count)):
                        behind.append(self._write_back(item, f"{local}[{index}]" if is_array else local))
            elif operand is None:
                fields[slot.name] = "0"
            elif slot.is_address:
                fields[slot.name] = self._write_address(operand, slot.space or space, c_type, count)
            elif slot.count:
                items = ", ".join(self._read(item, type_) for item in _list_items(operand, count))
                before.append(f"const {c_type} {local}[{count}] = {{{items}}};")
                fields[slot.name] = local
            else:
                fields[slot.name] = self._read(operand, type_)
        fields |= _list_defaults(assigned, fields)
        code = re.sub(r"#(?=\w)", "::host_ptx::", one.row.code).format(**fields)
        if not code.endswith(";"):
            written = next(slot for slot, _ in assigned if slot.is_written)
            code = f"{fields[written.name]} = {code};"
        return " ".join(filter(None, [*before, code, *behind]))

    def _write_address(self, operand: Operand, space: str, c_type: str, count: int) -> str:
        if not isinstance(operand, Address):
            raise Refused("a register where an address is expected")
        if isinstance(operand.base, Register):
            _, bits = self._find(operand.base)
            base = self._read(operand.base, f"u{bits}")
        else:
            base = f"uint64_t({operand.base.value}ull)"
        if operand.offset:
            base = f"({base} + {operand.offset})"
        return self._dialect.write_pointer(space.removesuffix("::cta"), base, c_type, count)

    @staticmethod
    def _list_words(one: Match) -> dict[str, str]:
        """Return the fields of a row's code that come from the instruction's name."""
        fields = dict[str, str]()
        for name, word in one.words.items():
            fields[name] = _name_type(TYPES[word].c_type) if word in TYPES else word
            fields[f"{name}_suffix"] = f"_{word}" if word else ""
            if name == "rnd":
                fields[name] = f"::host_ptx::{word}"
        fields["space_word"] = one.words.get("space", "").removesuffix("::cta")
        fields["is_ordered"] = "true" if one.words.get("order") in _ORDERED else "false"
        fields["is_global"] = "true" if one.words.get("space") == "global" else "false"
        fields["n"] = str({"": 1, "v2": 2, "v4": 4, "v8": 8}[one.words.get("vec", "")])
        if one.words.get("t") in ("u16", "s16", "u32", "s32"):
            fields["wide"] = TYPES[widen(one.words["t"])].c_type
        return fields


def _list_items(operand: Operand, count: int) -> Sequence[Operand]:
    items: Sequence[Operand] = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise Refused(f"{len(items)} registers where {count} are expected")
    return items


def _list_defaults(assigned: list[tuple[Slot, Operand | None]], fields: dict[str, str]) -> dict[str, str]:
    """Return what stands for operands that may be left out."""
    found = {}
    for slot, operand in assigned:
        if slot.is_optional and not slot.is_written:
            found[f"{slot.name}_or_all"] = fields[slot.name] if operand is not None else "~0u"
            found[f"{slot.name}_or_none"] = fields[slot.name] if operand is not None else "0u"
    return found


def _assign(one: Match, instruction: Instruction) -> list[tuple[Slot, Operand | None]] | None:
    """Return an operand for each slot, or nothing if the row has other operands."""
    slots, rest = one.row.list_slots(), list(instruction.operands)
    has_joined = any(slot.is_joined for slot in slots)
    if instruction.joined and not has_joined:
        return None
    assigned: list[tuple[Slot, Operand | None]] = []
    for index, slot in enumerate(slots):
        if slot.is_joined and not instruction.joined:
            if not slot.is_optional:
                return None
            assigned.append((slot, None))
            continue
        if not rest:
            if not slot.is_optional:
                return None
            assigned.append((slot, None))
            continue
        needed = sum(not later.is_optional for later in slots[index + 1 :])
        if slot.is_optional and not slot.is_joined and len(rest) <= needed:
            assigned.append((slot, None))
            continue
        assigned.append((slot, rest.pop(0)))
    fits = all(parts.takes(slot.part, _find_part(operand)) for slot, operand in assigned)
    return assigned if fits and not rest else None


def _find_part(operand: Operand | None) -> str:
    return operand.part if isinstance(operand, Register) else ""


def _write_immediate(operand: Immediate, type_: str, c_type: str) -> str:
    kind = TYPES[type_]
    value = operand.value
    if type_ == "pred":
        return "true" if value else "false"
    if operand.bits:
        number = int(value)
    elif type_ in _FLOAT_FORMATS:
        number = int.from_bytes(struct.pack(_FLOAT_FORMATS[type_], float(value)), "little")
    elif isinstance(value, float):
        if not kind.is_float and kind.bits in (32, 64):
            number = int.from_bytes(struct.pack("<f" if kind.bits == 32 else "<d", value), "little")
        else:
            raise Refused(f"the number {value} for .{type_}")
    else:
        number = value
    number &= (1 << kind.bits) - 1
    return f"::host_ptx::get<{c_type}>({CONTAINERS[kind.bits]}({number}u{'ll' if kind.bits == 64 else ''}))"
