"""Atomic operations: element by element."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..ir import Op
from ..tiles import Nest, Tile, name_type
from ..writer import Writer
from .emitter import Emitter, Handler

_Write = Callable[[list[str]], str]
_CHANGES = {
    "add": "({t})(old + x)", "fadd": "({t})(widen(old) + widen(x))", "exch": "x", "and": "({t})(old & x)",
    "or": "({t})(old | x)", "xor": "({t})(old ^ x)", "max": "larger<{t}>(old, x)", "min": "smaller<{t}>(old, x)",
    "umax": "larger_unsigned<{t}>(old, x)", "umin": "smaller_unsigned<{t}>(old, x)",
    "fmax": "({t})max_number(widen(old), widen(x))", "fmin": "({t})min_number(widen(old), widen(x))",
}  # fmt: skip


def _store_rows(writer: Writer, tile: Tile) -> Tile:
    """Store a tile that is read in place: the operation changes memory while others of its elements are to come."""
    return writer.store(tile) if tile.rows else tile


def _releases(op: Op) -> bool:
    """Return whether others that see the operation see what the program has written before."""
    return not re.search(r"\b(relaxed|acquire)\b", op.text)


def _write_change(op: Op, address: str, given: Sequence[str], c_type: str) -> str:
    """Return C++ for an atomic operation on one element."""
    if op.name == "tt.atomic_cas":
        captures = f"wanted = ({c_type}){given[0]}, x = ({c_type}){given[1]}"
        return f"change_atomically({address}, [{captures}]({c_type} old) {{ return is_same(old, wanted) ? x : old; }})"
    return _write_update(op.find(r"^tt\.atomic_rmw (\w+),"), address, given[0], c_type)


def _write_update(kind: str, address: str, value: str, c_type: str) -> str:
    change = _CHANGES[kind].format(t=c_type)
    return f"change_atomically({address}, [x = ({c_type}){value}]({c_type} old) {{ return {change}; }})"


def _write_each(emitter: Emitter, shape: tuple[int, ...], tiles: Sequence[Tile], write: _Write) -> None:
    """Write what `write` returns for the elements of tiles, or for scalars."""
    tiles = [_store_rows(emitter.writer, tile) for tile in tiles]
    if not shape:
        emitter.writer.put(write([tile.text for tile in tiles]))
        return

    def body(at: list[str], nest: Nest) -> None:
        nest.inner.append(write([emitter.writer.at(tile, at, nest) for tile in tiles]))

    emitter.writer.write_nest(shape, body)


def _change(emitter: Emitter, op: Op) -> None:
    writer, type_ = emitter.writer, op.results[0].type
    count = 3 if op.name == "tt.atomic_cas" else 2
    c_type, site = name_type(type_.element), writer.add_site(op.line)
    target = writer.declare(type_, "a" if type_.shape else "s")

    def write(given: list[str]) -> str:
        address = writer.check_atomic(site, given[1], c_type, _releases(op))
        change = _write_change(op, address, given[2 : 1 + count], c_type)
        guard = f"if (!({given[1 + count]})) {given[0]} = ({c_type})0; else " if len(given) > 1 + count else ""
        return f"{guard}{given[0]} = {change};"

    _write_each(emitter, type_.shape, [target, *emitter.list_operands(op)], write)
    emitter.set(op.results[0], target)


def change_tile(emitter: Emitter, op: Op, kind: str, pointers: Tile, mask: Tile, value: Tile) -> None:
    """Write an atomic operation without a result on the elements that a mask selects."""
    site, c_type = emitter.writer.add_site(op.line), name_type(pointers.type.pointee)

    def write(given: list[str]) -> str:
        address = emitter.writer.check_atomic(site, given[0], c_type, False)
        return f"if ({given[1]}) {_write_update(kind, address, given[2], c_type)};"

    _write_each(emitter, value.shape, [pointers, mask, value], write)


def _load(emitter: Emitter, op: Op) -> None:
    writer, type_ = emitter.writer, op.results[0].type
    c_type, site = name_type(type_.element), writer.add_site(op.line)
    target = writer.declare(type_, "a" if type_.shape else "s")

    def write(given: list[str]) -> str:
        guard = f"{given[2]} ? " if len(given) > 2 else ""
        rest = f" : ({c_type})0" if guard else ""
        address = writer.check_atomic(site, given[1], c_type, False)
        return f"{given[0]} = {guard}read_acquired({address}){rest};"

    _write_each(emitter, type_.shape, [target, *emitter.list_operands(op)], write)
    emitter.set(op.results[0], target)


def _store(emitter: Emitter, op: Op) -> None:
    of, site = emitter.list_operands(op), emitter.writer.add_site(op.line)
    c_type = name_type(of[0].type.pointee)

    def write(given: list[str]) -> str:
        guard = f"if ({given[2]}) " if len(given) > 2 else ""
        address = emitter.writer.check_atomic(site, given[0], c_type, _releases(op))
        return f"{guard}write_released({address}, ({c_type}){given[1]});"

    _write_each(emitter, of[0].shape, of, write)


def _poll(emitter: Emitter, op: Op) -> None:
    """Write a wait until elements have a value, or until a time has passed."""
    writer, type_ = emitter.writer, op.results[0].type
    pointers, expected, *timeout = emitter.list_operands(op)
    site, target = writer.add_site(op.line), writer.declare(type_, "a" if type_.shape else "s")
    deadline, writer.waits = writer.name("until"), True
    writer.put(f"const int64_t {deadline} = {f'find_deadline({timeout[0].text})' if timeout else 'NEVER'};")
    c_type = name_type(pointers.type.pointee)

    def write(given: list[str]) -> str:
        address = writer.check_atomic(site, given[1], c_type, False)
        return f"{given[0]} = wait_for(program, {site}, {address}, ({c_type}){given[2]}, {deadline});"

    _write_each(emitter, type_.shape, [target, pointers, expected], write)
    emitter.set(op.results[0], target)


HANDLERS: dict[str, Handler] = {
    "tt.atomic_rmw": _change,
    "tt.atomic_cas": _change,
    "tt.atomic_load": _load,
    "tt.atomic_store": _store,
    "tt.atomic_poll": _poll,
}
