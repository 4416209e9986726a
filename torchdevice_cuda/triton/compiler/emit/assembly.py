"""Inline assembly: each statement of PTX is C++ in a loop over the elements, as many at a time as it takes."""

from __future__ import annotations

import re

from ..ir import Op, Refused
from ..tiles import Tile, count_bytes, name_type
from .emitter import Emitter, Handler

_STRING = r'"((?:[^"\\]|\\.)*)"'
_HEADER = "host_ptx/ptx.h"
#: The size of an operand, by its constraint.
_BITS = {"h": 16, "r": 32, "l": 64, "f": 32, "d": 64}


class _Dialect:
    """A program of Triton: it has no threads, and its addresses are checked."""

    has_threads = False

    def __init__(self, site: int) -> None:
        self._site = site

    def write_pointer(self, space: str, address: str, c_type: str, count: int) -> str:
        """Return C++ for a pointer that was checked."""
        if space not in ("", "global"):
            raise Refused(f"the memory .{space} in inline assembly")
        return f"check(program, {self._site}, ({c_type}*)(uintptr_t)({address}), {count})"

    def write_special(self, name: str) -> str:
        """Return C++ for a special register that all threads of a program have alike."""
        name, _, axis = name.partition(".")
        if name == "%ctaid":
            return f"program.index[{'xyz'.index(axis)}]"
        if name == "%nctaid":
            return f"program.launch.grid[{'xyz'.index(axis)}]"
        return "0" if name == "%smid" else ""

    def write_carry(self) -> str:
        """Return a declaration of the carry."""
        return "bool cc = false;"


def _read_string(text: str) -> str:
    """Decode a string of MLIR."""
    return re.sub(
        r"\\([0-9A-Fa-f]{2}|.)",
        lambda found: chr(int(found[1], 16)) if len(found[1]) == 2 else {"n": "\n", "t": "\t"}.get(found[1], found[1]),
        text,
    )


class _Operand:
    """A tile in registers: elements of less than 32 bits share one, as far as they are packed."""

    def __init__(self, emitter: Emitter, tile: Tile, pack: int, letters: list[str]) -> None:
        self.tile, self._pack = tile, pack
        element = tile.type.element
        self.c_type = name_type(element)
        self._bits = count_bytes(element) * 8
        self._each = min(max(32 // self._bits, 1), pack)
        self.registers = [(emitter.writer.name("ptx_o"), self._take_size(letters)) for _ in range(0, pack, self._each)]

    def _take_size(self, letters: list[str]) -> int:
        if not letters:
            raise Refused("inline assembly with fewer constraints than operands")
        letter = letters.pop(0)
        if letter not in _BITS:
            raise Refused(f'the constraint "{letter}" of inline assembly')
        if _BITS[letter] < self._bits * self._each:
            raise Refused(f'{self._bits * self._each} bits for the constraint "{letter}" of inline assembly')
        return _BITS[letter]

    def _list_elements(self, number: int, index: str) -> list[tuple[str, int, str]]:
        """Return the elements of a register: C++, where it is in the register, and whether it exists."""
        found = []
        for place in range(self._each):
            behind = number * self._each + place
            shift = place * self._bits
            if not self.tile.shape:
                if behind == 0:
                    found.append((self.tile.text, shift, ""))
            else:
                is_inside = (
                    "" if self.tile.type.size % self._pack == 0 else f"{index} + {behind} < {self.tile.type.size}"
                )
                found.append((f"{self.tile.name}[{index} + {behind}]", shift, is_inside))
        return found

    def write_reads(self, index: str) -> list[str]:
        """Return lines that fill the registers."""
        lines = []
        for number, (name, bits) in enumerate(self.registers):
            parts = []
            for text, shift, condition in self._list_elements(number, index):
                taken = f"(uint{bits}_t)::host_ptx::take<uint{self._bits}_t>({text}) << {shift}"
                parts.append(f"({condition} ? {taken} : 0)" if condition else f"({taken})")
            lines.append(f"uint{bits}_t {name} = (uint{bits}_t)({' | '.join(parts) or '0'});")
        return lines

    def write_results(self, index: str) -> list[str]:
        """Return lines that store the registers' elements."""
        lines = []
        for number, (name, _) in enumerate(self.registers):
            for text, shift, condition in self._list_elements(number, index):
                bits = f"(uint{self._bits}_t)({name} >> {shift})"
                value = f"({bits} & 1)" if self.c_type == "bool" else f"bits_as<{self.c_type}>({bits})"
                lines.append(f"{f'if ({condition}) ' if condition else ''}{text} = {value};")
        return lines


def _assembly(emitter: Emitter, op: Op) -> None:
    from ....ptx import emit, parser  # most programs have no assembly

    writer = emitter.writer
    text = _read_string(op.find(_STRING))
    given = [word.strip() for word in _read_string(op.find(rf"constraints = {_STRING}")).split(",") if word.strip()]
    pack = op.read_int("packed_element")
    constraints = [word for word in given if not word.startswith("~")]
    written = [word.lstrip("=&") for word in constraints if word.startswith("=")]
    read = [word for word in constraints if not word.startswith("=")]
    targets = [writer.declare(value.type, "a" if value.type.shape else "s") for value in op.results]
    results = [_Operand(emitter, tile, pack, written) for tile in targets]
    places = [place for one in results for place in one.registers]
    # A number in the place of a letter: the operand shares the register of a result.
    shared = {at: int(word) for at, word in enumerate(read) if word.isdigit()}
    sizes = {bits: letter for letter, bits in _BITS.items()}
    letters = [sizes[places[int(word)][1]] if word.isdigit() else word for word in read]
    operands = [_Operand(emitter, writer.store(tile), pack, letters) for tile in emitter.list_operands(op)]
    if letters or written:
        raise Refused("inline assembly with more constraints than operands")
    first = len(places)
    places += [place for one in operands for place in one.registers]
    try:
        body = parser.parse(parser.number_operands(text, "$"))
        lines = emit.write(body, places, _Dialect(writer.add_site(op.line)))
    except parser.Refused as error:
        raise Refused(f"{error} in inline assembly") from None
    writer.headers.add(_HEADER)
    size = max((tile.type.size for tile in targets), default=1)
    index = writer.name("i")
    with writer.braces(f"for (int {index} = 0; {index} < {size}; {index} += {pack})"):
        for one in operands:
            for line in one.write_reads(index):
                writer.put(line)
        for number, (name, bits) in enumerate(places[:first]):
            tied = next((places[first + at][0] for at, of in shared.items() if of == number), "0")
            writer.put(f"uint{bits}_t {name} = {tied};")
        for line in lines:
            writer.put(line)
        for one in results:
            for line in one.write_results(index):
                writer.put(line)
    for value, tile in zip(op.results, targets, strict=True):
        emitter.set(value, tile)


HANDLERS: dict[str, Handler] = {"tt.elementwise_inline_asm": _assembly}
