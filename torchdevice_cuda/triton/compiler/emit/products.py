"""Products of matrices."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir import Op, Type
from ..tiles import Nest, Tile, flatten, name_type
from .emitter import Emitter, Handler


def _dot(emitter: Emitter, op: Op) -> None:
    left, right, addend = emitter.list_operands(op)[:3]
    precision = op.text.partition("inputPrecision = ")[2].split(",")[0].split(" ")[0]
    _multiply(emitter, op, left, right, addend, has_tf32=left.type.element == "f32" and precision == "tf32")


def _multiply(emitter: Emitter, op: Op, left: Tile, right: Tile, addend: Tile, has_tf32: bool) -> None:
    type_ = op.results[0].type
    *batches, rows, columns = type_.shape
    depth = left.shape[-1]
    factor = _choose_factor(left.type.element, type_.element)
    turned = _store_factor(emitter, left, factor, has_tf32, turned=True)
    plain = _store_factor(emitter, right, factor, has_tf32, turned=False)
    target = addend if _is_in_place(emitter, op, addend) else _copy(emitter, addend, type_, factor)
    with emitter.writer.loops(batches) as at:
        batch = flatten(at, batches)
        places = [f"{turned} + ({batch}) * {rows * depth}", f"{plain} + ({batch}) * {depth * columns}"]
        result = f"{target.name} + ({batch}) * {rows * columns}"
        emitter.writer.put(f"multiply<{rows}, {columns}, {depth}>({', '.join(places)}, {result});")
    if target.type.element != type_.element:
        target = emitter.writer.store(_convert(emitter, target, type_))
    emitter.set(op.results[0], target)


def _dot_scaled(emitter: Emitter, op: Op) -> None:
    """Multiply matrices whose elements have a common scale, in groups along the inner dimension."""
    operands = emitter.list_operands(op)
    is_scaled = [bool(part.strip().startswith("scale")) for part in re.split(r"%[\w$.\-#]+", op.text)[1:]]
    left, left_scales = operands.pop(0), operands.pop(0) if is_scaled[0] else None
    right, right_scales = operands.pop(0), operands.pop(0) if is_scaled[2 if is_scaled[0] else 1] else None
    left = _read_factor(emitter, op, left, left_scales, is_left=True)
    right = _read_factor(emitter, op, right, right_scales, is_left=False)
    _multiply(emitter, op, left, right, operands[0], has_tf32=False)


def _read_factor(emitter: Emitter, op: Op, tile: Tile, scales: Tile | None, is_left: bool) -> Tile:
    """Return a factor of a scaled product as floats."""
    side = "lhs" if is_left else "rhs"
    if op.find(rf"\b{side} = (\w+)") == "e2m1":
        is_inner = f"{side}_k_pack = false" not in op.text
        tile = _unpack(emitter, tile, 1 if is_left == is_inner else 0)
    return tile if scales is None else _scale(emitter, tile, scales, is_left)


def _unpack(emitter: Emitter, tile: Tile, axis: int) -> Tile:
    """Return the elements of four bits, of which each byte holds two along a dimension."""
    shape = tuple(size * 2 if dimension == axis else size for dimension, size in enumerate(tile.shape))

    def formula(at: Sequence[str], nest: Nest) -> str:
        byte = [f"({one} / 2)" if dimension == axis else one for dimension, one in enumerate(at)]
        return f"e2m1_of((uint8_t){emitter.writer.at(tile, byte, nest)} >> ({at[axis]} % 2 * 4))"

    return Tile(Type(shape, "f32"), formula=formula)


def _scale(emitter: Emitter, tile: Tile, scales: Tile, is_left: bool) -> Tile:
    """Return elements times their scales: numbers of eight bits, or exponents of two, of which 255 is NaN."""
    group = tile.shape[1 if is_left else 0] // scales.shape[-1]
    is_exponent = scales.type.element == "i8"

    def formula(at: Sequence[str], nest: Nest) -> str:
        outer, inner = (at[0], at[1]) if is_left else (at[1], at[0])
        code = emitter.writer.at(scales, [outer, f"({inner} / {group})"], nest)
        scale = f"scale_of((uint8_t){code})" if is_exponent else f"(float){code}"
        return f"((float){emitter.writer.at(tile, at, nest)} * {scale})"

    return Tile(tile.type.with_element("f32"), formula=formula)


def _choose_factor(element: str, result: str) -> str:
    """Return the type that is computed with: float's sums are exact enough for all formats below it."""
    if element == "f64" or element.startswith("i"):
        return element
    return "f32"


def _store_factor(emitter: Emitter, tile: Tile, element: str, has_tf32: bool, turned: bool) -> str:
    """Write a factor into an array of the type that is computed with; the left one column by column."""
    if not turned and tile.is_array and tile.type.element == element and not has_tf32:
        return tile.name
    writer = emitter.writer
    c_type = name_type(element)
    turn = [*range(len(tile.shape) - 2), -1, -2]
    shape = tuple(tile.shape[place] for place in turn) if turned else tile.shape
    target = writer.declare(Type(shape, element), "f")

    def body(at: list[str], nest: Nest) -> None:
        value = f"({c_type}){writer.at(tile, at, nest)}"
        place = writer.at(target, [at[place] for place in turn] if turned else at, nest)
        nest.inner.append(f"{place} = {f'to_tf32({value})' if has_tf32 else value};")

    writer.write_nest(tile.shape, body)
    return target.name


def _copy(emitter: Emitter, addend: Tile, type_: Type, factor: str) -> Tile:
    """Store what the product is added to."""
    wide = type_ if type_.element not in ("f16", "bf16") else type_.with_element("f32")
    target = emitter.writer.declare(wide)
    emitter.writer.assign(target, _convert(emitter, addend, wide) if addend.type != wide else addend)
    return target


def _convert(emitter: Emitter, tile: Tile, type_: Type) -> Tile:
    """Return a tile of floating point in another format."""

    def formula(at: Sequence[str], nest: Nest) -> str:
        return f"({name_type(type_.element)}){emitter.writer.at(tile, at, nest)}"

    return Tile(type_, formula=formula)


def _is_in_place(emitter: Emitter, op: Op, addend: Tile) -> bool:
    """Return whether the addend is an array that a loop carries, used here alone and replaced by the result."""
    uses = emitter.uses
    users = uses.users.get(op.results[0], [])
    if op.name != "tt.dot" or not addend.is_array or len(uses.users[op.operands[2]]) != 1 or len(users) != 1:
        return False
    last = users[0]
    if last.name != "scf.yield" or uses.block_of[last] is not uses.block_of[op]:
        return False
    carried = uses.block_of[op].args[1:]
    place = last.operands.index(op.results[0])
    return place < len(carried) and carried[place] is op.operands[2]


HANDLERS: dict[str, Handler] = {"tt.dot": _dot, "tt.dot_scaled": _dot_scaled}
