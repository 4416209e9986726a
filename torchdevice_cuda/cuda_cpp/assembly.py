"""Inline assembly of CUDA C++: each ``asm`` statement is replaced by C++ before anything else is translated.

So kernels with assembly are analysed by the names that the C++ has: ``threadIdx``, ``__syncthreads``, ``__shfl_sync``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator

from .tokens import CLOSING, Token, after, closing, replace

_NAMES = {"asm", "__asm__", "__asm"}
_QUALIFIERS = {"volatile", "__volatile__", "__volatile", "inline"}
#: The size of an operand, by its constraint.
_BITS = {"h": 16, "r": 32, "l": 64, "f": 32, "d": 64, "n": 64, "i": 64}
_REALS = {"f": "float", "d": "double"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "'": "'", "\\": "\\", "\n": "", "0": "\0"}
_PRESENT = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:volatile|__volatile__)?\s*\(")


#: Where the preprocessor reads files that `headers.find_included` does not find.
UNSEEN = "inline PTX of a file that is included by a macro or an option: compile with -DHOST_CUDA_PTX"


def is_present(text: str) -> bool:
    """Return whether a text may have statements of assembly."""
    return "asm" in text and _PRESENT.search(text) is not None


def has_statements(tokens: list[Token]) -> bool:
    """Return whether there is a name that begins a statement of assembly."""
    return any(token.kind == "name" and token.text in _NAMES for token in tokens)


@dataclasses.dataclass
class _Operand:
    constraint: str
    expression: str


@dataclasses.dataclass
class _Statement:
    """An ``asm`` statement, from its name to its closing parenthesis."""

    start: int
    end: int
    text: str
    outputs: list[_Operand]
    inputs: list[_Operand]


class _Dialect:
    """CUDA C++: threads, and shared memory with addresses of 32 bits."""

    has_threads = True

    def write_pointer(self, space: str, address: str, c_type: str, count: int) -> str:
        """Return C++ for a pointer."""
        if space == "raw":
            return f"uint64_t({address})"
        if space == "shared":
            return f"::host_cuda::find_shared<{c_type}>({address})"
        return f"({c_type}*)(uintptr_t)({address})"

    def write_special(self, name: str) -> str:
        """Return C++ for a special register."""
        from ..ptx.table import threads

        return threads.SPECIAL.get(name, "")

    def write_carry(self) -> str:
        """Return a declaration of the carry, which goes from statement to statement."""
        return "bool& cc = ::host_cuda::worker->carry;"


def list_statements(tokens: list[Token]) -> Iterator[_Statement]:
    """Find the statements of PTX. Assembly that is the host's, and empty assembly without operands, is left."""
    for at, token in enumerate(tokens):
        if token.kind != "name" or token.text not in _NAMES:
            continue
        start = after(tokens, at)
        while start < len(tokens) and tokens[start].text in _QUALIFIERS:
            start = after(tokens, start)
        if start >= len(tokens) or tokens[start].text != "(":
            continue
        end = closing(tokens, start)
        sections = _split(tokens[start + 1 : end])
        text = "".join(_read_string(one) for one in sections[0] if one.kind in ("string", "raw"))
        outputs, inputs = (
            [_read_operand(one) for one in _split_operands(section)] for section in (*sections[1:], [], [])[:2]
        )
        if _is_ptx(text, bool(outputs or inputs)):
            yield _Statement(at, end, text, outputs, inputs)


def _is_ptx(text: str, has_operands: bool) -> bool:
    """Return whether a text is PTX: a name without operands, such as ``pause``, may be the host's."""
    if any(mark in text for mark in "%;.") or has_operands:
        return True
    from ..ptx import table

    return table.is_known(text.strip())


def _split(tokens: list[Token]) -> list[list[Token]]:
    """Split the inside of a statement at its colons; ``::`` is two."""
    sections: list[list[Token]] = [[]]
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token.kind == "mark" and token.text in CLOSING:
            end = closing(tokens, at)
            sections[-1].extend(tokens[at : end + 1])
            at = end
        elif token.kind == "mark" and token.text in (":", "::"):
            sections.extend([] for _ in token.text)
        else:
            sections[-1].append(token)
        at += 1
    return sections


def _split_operands(tokens: list[Token]) -> list[list[Token]]:
    operands: list[list[Token]] = [[]]
    at = 0
    while at < len(tokens):
        if tokens[at].kind == "mark" and tokens[at].text in CLOSING:
            end = closing(tokens, at)
            operands[-1].extend(tokens[at : end + 1])
            at = end
        elif tokens[at].text == ",":
            operands.append([])
        else:
            operands[-1].append(tokens[at])
        at += 1
    return [one for one in operands if any(token.kind != "space" for token in one)]


def _read_operand(tokens: list[Token]) -> _Operand:
    constraint = "".join(_read_string(token) for token in tokens if token.kind == "string")
    first = next((at for at, token in enumerate(tokens) if token.text == "("), len(tokens))
    text = "".join(" " if token.kind == "space" else token.text for token in tokens[first:])
    return _Operand(constraint, text.strip())


def _read_string(token: Token) -> str:
    if token.kind == "raw":
        inner = token.text[token.text.index('"') + 1 : -1]
        delimiter, _, rest = inner.partition("(")
        return rest[: len(rest) - len(delimiter) - 1]
    text = token.text[token.text.index('"') + 1 : -1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), text, flags=re.DOTALL)


def translate(statement: _Statement) -> str:
    """Return C++ for a statement; raise `ptx.parser.Refused` for what is not supported."""
    from ..ptx import emit, parser

    body = parser.parse(parser.number_operands(statement.text, "%"))
    lines: list[str] = []
    behind: list[str] = []
    places: list[tuple[str, int]] = []
    for number, one in enumerate(statement.outputs):
        letter, bits = _read_constraint(one.constraint)
        name, target = f"ptx_o{number}", f"ptx_t{number}"
        start = f"::host_ptx::take<uint{bits}_t>({_cast(letter, target)})" if "+" in one.constraint else "0"
        lines.append(f"auto&& {target} = {one.expression}; uint{bits}_t {name} = {start};")
        value = f"::host_ptx::get<{_REALS[letter]}>({name})" if letter in _REALS else name
        behind.append(f"::host_ptx::give({target}, {value});")
        places.append((name, bits))
    for one in statement.inputs:
        if one.constraint.isdigit() and int(one.constraint) < len(statement.outputs):
            name, bits = places[int(one.constraint)]
            letter, _ = _read_constraint(statement.outputs[int(one.constraint)].constraint)
            lines.append(f"{name} = ::host_ptx::take<uint{bits}_t>({_cast(letter, one.expression)});")
            places.append((name, bits))
            continue
        letter, bits = _read_constraint(one.constraint)
        name = f"ptx_o{len(places)}"
        lines.append(f"uint{bits}_t {name} = ::host_ptx::take<uint{bits}_t>({_cast(letter, one.expression)});")
        places.append((name, bits))
    lines += emit.write(body, places, _Dialect())
    return f"do {{ {' '.join([*lines, *behind])} }} while (0)"


def _cast(letter: str, expression: str) -> str:
    return f"({_REALS[letter]}){expression}" if letter in _REALS else expression


def _read_constraint(text: str) -> tuple[str, int]:
    from ..ptx.parser import Refused

    letter = text.strip().lstrip("=+&")
    if letter not in _BITS:
        raise Refused(f'the constraint "{text}" of inline PTX')
    return letter, _BITS[letter]


def _refuse(number: int, message: str) -> str:
    """Return C++ that is an error where it is compiled: headers have functions and templates that nobody uses."""
    text = message.replace("\\", "\\\\").replace('"', '\\"')
    name = f"host_cuda_refused_{number}"
    return f'do {{ void {name}() __attribute__((error("{text}"))); {name}(); }} while (0)'


def expand(
    tokens: list[Token], spans: list[tuple[int, int, int]], describe: Callable[[str], str]
) -> tuple[list[Token], list[tuple[int, int, int]]]:
    """Replace the statements by their C++. Spans of tokens (a number, start, end) follow, and lines stay lines.

    `describe` words an error of what cannot be written.
    """
    from ..ptx.parser import Refused

    def write() -> Iterator[tuple[int, int, str]]:
        for number, statement in enumerate(list_statements(tokens)):
            try:
                written = translate(statement)
            except Refused as error:
                written = _refuse(number, describe(str(error)))
            yield statement.start, statement.end + 1, written

    return replace(tokens, write(), spans)
