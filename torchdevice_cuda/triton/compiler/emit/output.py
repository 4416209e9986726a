"""What kernels print, and their assertions."""

from __future__ import annotations

import json
import re

from ..ir import Op
from ..tiles import Nest, Tile, is_float
from .emitter import Emitter, Handler


def _read_string(op: Op) -> str:
    """Return the string of an operation; MLIR escapes bytes by their two digits."""
    raw = op.find(r'"((?:[^"\\]|\\.)*)"').encode()
    out, at = bytearray(), 0
    while at < len(raw):
        if raw[at : at + 1] == b"\\" and raw[at + 1 : at + 2] == b"\\":
            out += b"\\"
            at += 2
        elif raw[at : at + 1] == b"\\":
            out.append(int(raw[at + 1 : at + 3], 16))
            at += 3
        else:
            out.append(raw[at])
            at += 1
    return out.decode(errors="replace")


def _quote(text: str) -> str:
    return json.dumps(text)


def _assert(emitter: Emitter, op: Op) -> None:
    condition, writer = emitter.get(op.operands[0]), emitter.writer
    site = writer.add_site(f"{op.line}\0{_read_string(op)}")
    if not condition.shape:
        writer.put(f"if (!({condition.text})) fail(program, ASSERTION, {site}, 0);")
        return

    def body(at: list[str], nest: Nest) -> None:
        nest.inner.append(f"if (!({writer.at(condition, at, nest)})) fail(program, ASSERTION, {site}, 0);")

    writer.write_nest(condition.shape, body)


def _write_value(tile: Tile, text: str, in_hex: bool, is_signed: bool) -> str:
    """Return C++ that prints an element in the form that the GPU's code has for its type."""
    element = tile.type.element
    if is_float(element):
        return f'print.add("{"%a" if in_hex else "%f"}", (double)widen({text}));'
    if tile.type.is_pointer:
        return f'print.add("%p", (void*){text});'
    if in_hex:
        digits = {"i8": 2, "i16": 4, "i32": 8}.get(element, 16)
        return f'print.add("0x%0{digits}llx", (unsigned long long)as_unsigned({text}));'
    if is_signed:
        return f'print.add("%lld", (long long){text});'
    return f'print.add("%llu", (unsigned long long)as_unsigned({text}));'


def _print(emitter: Emitter, op: Op) -> None:
    """Write a line for each element, in the form in which the GPU writes them."""
    prefix, in_hex, of = _read_string(op), "hex = true" in op.text, emitter.list_operands(op)
    signs = re.search(r"isSigned = array<i32: ([\d, ]+)>", op.text)
    is_signed = [sign.strip() == "1" for sign in signs[1].split(",")] if signs else [True] * len(of)
    program = 'print.add("pid (%d, %d, %d)", program.index[0], program.index[1], program.index[2]);'
    for number, tile in enumerate(of):
        operand = f"(operand {number}) " if len(of) > 1 else ""

        def body(at: list[str], nest: Nest, tile: Tile = tile, number: int = number, operand: str = operand) -> None:
            indices = ", ".join(f"%{len(str(size - 1))}d" for size in tile.shape)
            shown = f'print.add(" idx ({indices})"{"".join(f", {one}" for one in at)});'
            text = f'print.add("%s", {_quote(prefix + operand)});'
            value = _write_value(tile, emitter.writer.at(tile, at, nest), in_hex, is_signed[number])
            nest.inner.append(
                f'{{ Print print{{program}}; {program} {shown} {text} {value} print.add("\\n"); print.end(); }}'
            )

        emitter.writer.write_nest(tile.shape, body)
    if not of:
        text = f'print.add("%s\\n", {_quote(prefix)});'
        emitter.writer.put(f"{{ Print print{{program}}; {program} {text} print.end(); }}")


HANDLERS: dict[str, Handler] = {"tt.assert": _assert, "tt.print": _print}
