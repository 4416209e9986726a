"""Tensor descriptors: a base, sizes and strides, from which blocks are loaded and into which they are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir import Op, Type, Unsupported
from ..tiles import STRIDED, Nest, Step, Tile, is_float, name_type, read_descriptor
from .atomics import change_tile
from .emitter import Emitter, Handler
from .memory import load_tile, store_tile

#: A kernel's argument: what is set above the 32 bits of a descriptor's first size.
PADS_WITH_NAN, ROUNDS_TO_TF32 = 1 << 32, 2 << 32


def _read_block(type_: Type) -> Type:
    """Return the type of a descriptor's block."""
    shape, element = read_descriptor(type_.element)
    return Type(shape, element)


def write_argument(type_: Type, number: int) -> str:
    """Return C++ for a descriptor that the kernel is given: sizes and strides are the arguments behind it."""
    shape, element = read_descriptor(type_.element)
    sizes = ", ".join(f"(int32_t)arguments[{number + 1 + dimension}]" for dimension in range(len(shape)))
    strides = ", ".join(f"arguments[{number + 1 + len(shape) + dimension}]" for dimension in range(len(shape)))
    options = ", ".join(f"(arguments[{number + 1}] & {option}ll) != 0" for option in (PADS_WITH_NAN, ROUNDS_TO_TF32))
    base = f"({name_type(element)}*)arguments[{number}]"
    return f"{{{base}, {{{sizes}}}, {{{strides}}}, {options}}}"


def _make(emitter: Emitter, op: Op) -> None:
    base, *rest = (tile.text for tile in emitter.list_operands(op))
    rank, type_ = len(rest) // 2, op.results[0].type
    pads = "true" if "padding = 2" in op.text else "false"
    text = f"{{{base}, {{{', '.join(rest[:rank])}}}, {{{', '.join(rest[rank:])}}}, {pads}, false}}"
    emitter.set(op.results[0], emitter.writer.define(type_, f"{name_type(type_.element)}{text}"))


def _find_elements(
    emitter: Emitter, descriptor: Tile, starts: Sequence[str | Tile], shape: tuple[int, ...]
) -> tuple[Tile, Tile]:
    """Return the addresses of a block's elements, and which of them are in the tensor.

    A tile among the starts has the index of each row; its block has one row.
    """

    def list_indices(at: Sequence[str], nest: Nest) -> list[str]:
        return [
            f"(int64_t){emitter.writer.at(start, [one], nest)}"
            if isinstance(start, Tile)
            else f"((int64_t){start} + {one})"
            for start, one in zip(starts, at, strict=True)
        ]

    def write_address(at: Sequence[str], nest: Nest) -> str:
        terms = (f"{one} * {descriptor.text}.strides[{d}]" for d, one in enumerate(list_indices(at, nest)))
        return f"({descriptor.text}.base + {' + '.join(terms)})"

    def write_mask(at: Sequence[str], nest: Nest) -> str:
        tests = (
            f"(uint64_t){one} < (uint64_t){descriptor.text}.sizes[{d}]" for d, one in enumerate(list_indices(at, nest))
        )
        return f"({' && '.join(tests)})"

    # Descriptors are of tensors whose last dimension is contiguous.
    steps: tuple[Step, ...] = (*(STRIDED for _ in shape[:-1]), 1)
    element = f"ptr<{_read_block(descriptor.type).element}>"
    pointers = Tile(Type(shape, element), formula=write_address, steps=steps)
    return pointers, Tile(Type(shape, "i1"), formula=write_mask)


def _find_block(emitter: Emitter, op: Op, shape: tuple[int, ...]) -> tuple[Tile, Tile]:
    """Return the addresses of the block that an operation names, and which of its elements are in the tensor."""
    descriptor = emitter.get(op.operands[0])
    block = _read_block(descriptor.type).shape
    starts = [emitter.get(value).text for value in op.operands[1 : 1 + len(block)]]
    pointers, mask = _find_elements(emitter, descriptor, starts, block)
    kept = _match_dimensions(block, shape)
    return _drop_dimensions(pointers, kept), _drop_dimensions(mask, kept)


def _match_dimensions(block: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Return which dimensions of a descriptor's block a tile has; it may lack some that have one element."""
    kept: list[int] = []
    for dimension, size in enumerate(block):
        if len(kept) < len(shape) and size == shape[len(kept)]:
            kept.append(dimension)
        elif size != 1:
            raise Unsupported(f"a tile of the shape {shape} for a descriptor of {block}")
    return kept


def _drop_dimensions(tile: Tile, kept: list[int]) -> Tile:
    formula, count = tile.formula, len(tile.shape)
    assert formula is not None

    def write(at: Sequence[str], nest: Nest) -> str:
        return formula([at[kept.index(one)] if one in kept else "0" for one in range(count)], nest)

    type_ = Type(tuple(tile.shape[one] for one in kept), tile.type.element)
    return Tile(type_, formula=write, steps=tuple(tile.steps[one] for one in kept))


def _find_rows(emitter: Emitter, op: Op, shape: tuple[int, ...]) -> tuple[Tile, Tile]:
    """Return the addresses of the rows that an operation gathers or scatters, and which elements are in the tensor."""
    rows, column = emitter.get(op.operands[1]), emitter.get(op.operands[2]).text
    return _find_elements(emitter, emitter.get(op.operands[0]), [emitter.writer.store(rows), column], shape)


def _load_elements(emitter: Emitter, op: Op, pointers: Tile, mask: Tile) -> None:
    descriptor, type_ = emitter.get(op.operands[0]).text, op.results[0].type
    other = None
    if is_float(type_.element):
        text = f'({name_type(type_.element)})({descriptor}.pads_with_nan ? __builtin_nanf("") : 0.0f)'
        other = Tile(type_, literal=text, steps=(0,) * len(type_.shape))
    load_tile(emitter, op, pointers, mask, other)
    if type_.element != "f32":
        return
    loaded, writer = emitter.get(op.results[0]), emitter.writer
    emitter.set(op.results[0], loaded := writer.store(loaded))

    def body(at: list[str], nest: Nest) -> None:
        place = writer.at(loaded, at, nest)
        nest.inner.append(f"{place} = round_to_tf32({place});")

    with writer.braces(f"if ({descriptor}.rounds_to_tf32)"):
        writer.write_nest(type_.shape, body)


def _load(emitter: Emitter, op: Op) -> None:
    _load_elements(emitter, op, *_find_block(emitter, op, op.results[0].type.shape))


def _gather(emitter: Emitter, op: Op) -> None:
    _load_elements(emitter, op, *_find_rows(emitter, op, op.results[0].type.shape))


def _store(emitter: Emitter, op: Op) -> None:
    value = emitter.get(op.operands[-1])
    pointers, mask = _find_block(emitter, op, value.shape)
    store_tile(emitter, op, pointers, value, mask)


def _scatter(emitter: Emitter, op: Op) -> None:
    value = emitter.get(op.operands[-1])
    pointers, mask = _find_rows(emitter, op, value.shape)
    store_tile(emitter, op, pointers, value, mask)


def _reduce(emitter: Emitter, op: Op) -> None:
    value = emitter.get(op.operands[-1])
    kind = op.find(r"^tt\.descriptor_reduce (\w+),")
    is_unsigned = re.search(r"xui\d+", op.operands[0].type.element) is not None
    kind = f"u{kind}" if is_unsigned and kind in ("min", "max") else kind
    if is_float(value.type.element):
        kind = f"f{kind}"
    change_tile(emitter, op, kind, *_find_block(emitter, op, value.shape), value)


HANDLERS: dict[str, Handler] = {
    "tt.make_tensor_descriptor": _make,
    "tt.descriptor_load": _load,
    "tt.descriptor_store": _store,
    "tt.descriptor_gather": _gather,
    "tt.descriptor_scatter": _scatter,
    "tt.descriptor_reduce": _reduce,
}
