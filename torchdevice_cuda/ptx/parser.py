"""Read a statement of inline assembly: instructions with predicates, registers, vectors, addresses and immediates."""

from __future__ import annotations

import dataclasses
import re

from .types import TYPES


class Refused(Exception):
    """The assembly has something that is not supported; the message names it."""


@dataclasses.dataclass(frozen=True)
class Register:
    """A register, a special register such as ``%tid.x``, or the operand of a statement (``$0``)."""

    name: str
    is_negated: bool = False
    #: of a video instruction's operand: ``h0``, ``b3210``
    part: str = ""


@dataclasses.dataclass(frozen=True)
class Immediate:
    """A constant. The bits of ``0f3F800000`` and ``0d...`` are those of a float or a double."""

    value: int | float
    bits: int = 0


@dataclasses.dataclass(frozen=True)
class Vector:
    """Registers in braces."""

    items: tuple[Register | Immediate, ...]


@dataclasses.dataclass(frozen=True)
class Address:
    """A register in brackets, with an offset."""

    base: Register | Immediate
    offset: int = 0


Operand = Register | Immediate | Vector | Address


@dataclasses.dataclass(frozen=True)
class Instruction:
    """An instruction: ``add.rn.f32`` is its base and its words."""

    base: str
    words: tuple[str, ...]
    operands: tuple[Operand, ...]
    #: how many of the first operands are joined by ``|``
    joined: int = 0
    guard: Register | None = None

    @property
    def opcode(self) -> str:
        """The name as it is written."""
        return ".".join((self.base, *self.words))


@dataclasses.dataclass
class Body:
    """The instructions of a statement, and the sizes of the registers that it declares."""

    instructions: list[Instruction] = dataclasses.field(default_factory=list)
    registers: dict[str, int] = dataclasses.field(default_factory=dict)


_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
  | (?P<place>\$\d+)
  | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
  | (?P<name>[%$]?[A-Za-z_][\w$]*(?:(?:\.|::)[\w$]+)*|\.[A-Za-z]\w*)
  | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = {"WARP_SZ": 32}
_PART = re.compile(r"(.*)\.([bh][0-7]{1,4})")


def number_operands(text: str, mark: str) -> str:
    """Write operands as ``$0``. Their `mark` is ``%`` in CUDA C++ and ``$`` in LLVM; the mark itself is doubled."""
    one = re.escape(mark)
    return re.sub(
        rf"{one}{one}|{one}\{{(\d+)(?::\w+)?\}}|{one}(\d+)",
        lambda found: mark if found[1] is None and found[2] is None else f"${found[1] or found[2]}",
        text,
    )


def parse(text: str) -> Body:
    """Read a statement whose operands are written as ``$0``."""
    return _Parser(text).parse_body()


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        for found in _TOKEN.finditer(text):
            if found.lastgroup != "space":
                self._tokens.append((found.lastgroup or "mark", found.group()))
        self._at = 0
        self._body = Body()
        # registers by the name that they have where they are declared
        self._scopes: list[dict[str, str]] = [{}]

    # ---------------------------------------------------------------- tokens
    @property
    def _text(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        text = self._text
        if not text:
            raise Refused("an instruction that does not end")
        self._at += 1
        return text

    def _skip(self, text: str) -> bool:
        if self._text != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._skip(text):
            raise Refused(f"{self._text or 'the end'!r} where {text!r} is expected")

    # ------------------------------------------------------------ statements
    def parse_body(self) -> Body:
        """Read all statements."""
        while self._text:
            if self._skip(";"):
                continue
            if self._skip("{"):
                self._scopes.append({})
            elif self._skip("}"):
                if len(self._scopes) == 1:
                    raise Refused("a closing brace without its opening one")
                self._scopes.pop()
            elif self._skip(".reg"):
                self._parse_declaration()
            elif self._text.startswith("."):
                raise Refused(f"the directive {self._text}")
            else:
                self._parse_instruction()
        if len(self._scopes) > 1:
            raise Refused("an opening brace without its closing one")
        return self._body

    def _parse_declaration(self) -> None:
        kind = self._take().removeprefix(".")
        if kind not in TYPES:
            raise Refused(f"registers of the type .{kind}")
        while True:
            name = self._take()
            count = None
            if self._skip("<"):
                count = int(self._take())
                self._expect(">")
            for one in [name] if count is None else [f"{name}{index}" for index in range(count)]:
                unique = one if one not in self._body.registers else f"{one}#{len(self._body.registers)}"
                self._scopes[-1][one] = unique
                self._body.registers[unique] = TYPES[kind].bits
            if not self._skip(","):
                break
        self._expect(";")

    def _parse_instruction(self) -> None:
        guard = None
        if self._skip("@"):
            is_negated = self._skip("!")
            guard = self._name_register(self._take(), is_negated)
        opcode = self._take()
        if self._text == ":":
            raise Refused(f"the label {opcode}")
        if not re.fullmatch(r"[a-z]\w*(?:(?:\.|::)\w+)*", opcode):
            raise Refused(f"{opcode!r} where an instruction is expected")
        base, *words = opcode.split(".")
        operands: list[Operand] = []
        joined = 0
        while self._text and self._text not in (";", "}"):
            operands.append(self._parse_operand())
            while self._skip("|"):
                operands.append(self._parse_operand())
                joined = len(operands)
            if self._text.startswith("."):
                raise Refused(f"the part {self._text} of an operand of the PTX instruction {opcode}")
            if not self._skip(","):
                break
        if self._text:
            self._expect(";")
        self._body.instructions.append(Instruction(base, tuple(words), tuple(operands), joined, guard))

    # -------------------------------------------------------------- operands
    def _parse_inner(self) -> Register | Immediate:
        """Read an operand of a vector or an address, which has no parts."""
        inner = self._parse_atom()
        if isinstance(inner, Register) and inner.part:
            raise Refused(f"the part .{inner.part} of a register in a vector or an address")
        return inner

    def _parse_operand(self) -> Operand:
        if self._skip("{"):
            items = [self._parse_inner()]
            while self._skip(","):
                items.append(self._parse_inner())
            self._expect("}")
            return Vector(tuple(items))
        if self._skip("["):
            base = self._parse_inner()
            offset = 0
            while self._text in ("+", "-"):
                sign = -1 if self._take() == "-" else 1
                if self._skip("-"):
                    sign = -sign
                given = self._parse_atom()
                if not isinstance(given, Immediate):
                    raise Refused("an address that is a sum of registers")
                offset += sign * int(given.value)
            self._expect("]")
            return Address(base, offset)
        return self._parse_atom()

    def _parse_atom(self) -> Register | Immediate:
        if self._skip("!"):
            return self._name_register(self._take(), True)
        if self._skip("-"):
            given = self._parse_atom()
            if not isinstance(given, Immediate) or given.bits:
                raise Refused("a sign in front of something that is no number")
            return Immediate(-given.value)
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "the end")
        self._at += 1
        if kind == "number":
            return _read_number(text)
        if kind not in ("name", "place"):
            raise Refused(f"{text!r} where an operand is expected")
        if text in _CONSTANTS:
            return Immediate(_CONSTANTS[text])
        if kind == "place" and (found := _PART.fullmatch(self._text)):
            self._at += 1
            return Register(text, part=found[2])
        return self._name_register(text, False)

    def _name_register(self, name: str, is_negated: bool) -> Register:
        if found := _PART.fullmatch(name):
            return dataclasses.replace(self._name_register(found[1], is_negated), part=found[2])
        for scope in reversed(self._scopes):
            if name in scope:
                return Register(scope[name], is_negated)
        return Register(name, is_negated)


def _read_number(text: str) -> Immediate:
    lower = text.lower()
    if lower.startswith(("0f", "0d")) and len(text) in (10, 18):
        return Immediate(int(text[2:], 16), 32 if lower[1] == "f" else 64)
    if "." in text or ("e" in lower and not lower.startswith("0x")):
        return Immediate(float(text))
    digits = lower.removesuffix("u")
    if re.fullmatch(r"0[0-7]+", digits):
        return Immediate(int(digits, 8))
    return Immediate(int(digits, 0))
