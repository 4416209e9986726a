"""Tensor descriptors: a base, sizes and strides, from which blocks are loaded and into which they are stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..ir import Op, Type, Unsupported
from ..parser import parse_type
from ..tiles import STRIDED, Nest, Step, Tile
from .emitter import Emitter, Handler
from .memory import load_tile, store_tile


@dataclasses.dataclass(eq=False)
class Descriptor(Tile):
    """A descriptor, by the names of its parts."""

    base: Tile = dataclasses.field(default_factory=lambda: Tile(Type((), "i64")))
    sizes: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    block: tuple[int, ...] = ()


def _read_block(type_: Type) -> Type:
    return parse_type(f"tensor<{type_.element[5:-1]}>")


def read_argument(type_: Type, number: int) -> Descriptor | None:
    """Return a descriptor that the kernel is given: sizes and strides are the arguments behind it."""
    if not type_.element.startswith("desc<"):
        return None
    block = _read_block(type_)
    rank = len(block.shape)
    return Descriptor(
        type_,
        base=Tile(Type((), f"ptr<{block.element}>"), f"arg{number}"),
        sizes=tuple(f"arg{number + 1 + dimension}" for dimension in range(rank)),
        strides=tuple(f"arg{number + 1 + rank + dimension}" for dimension in range(rank)),
        block=block.shape,
    )


def _make(emitter: Emitter, op: Op) -> None:
    base, *rest = emitter.list_operands(op)
    if "padding = " in op.text and "padding = 1" not in op.text:
        raise Unsupported("a tensor descriptor that pads with NaN")
    rank = len(rest) // 2
    descriptor = Descriptor(
        op.results[0].type,
        base=base,
        sizes=tuple(tile.text for tile in rest[:rank]),
        strides=tuple(tile.text for tile in rest[rank:]),
        block=_read_block(op.results[0].type).shape,
    )
    emitter.set(op.results[0], descriptor)


def _find_block(emitter: Emitter, op: Op, shape: tuple[int, ...]) -> tuple[Tile, Tile]:
    """Return the addresses of a block's elements, and which of them are in the tensor."""
    descriptor = emitter.get(op.operands[0])
    if not isinstance(descriptor, Descriptor) or len(shape) != len(descriptor.block):
        raise Unsupported(f"{op.name} of another rank than its descriptor")
    starts = [emitter.get(value).text for value in op.operands[1 : 1 + len(shape)]]

    def write_address(at: Sequence[str], nest: Nest) -> str:
        terms = (
            f"({start} + (int64_t){one}) * {stride}"
            for start, one, stride in zip(starts, at, descriptor.strides, strict=True)
        )
        return f"({descriptor.base.text} + {' + '.join(terms)})"

    def write_mask(at: Sequence[str], nest: Nest) -> str:
        tests = (
            f"(uint64_t)({start} + (int64_t){one}) < (uint64_t){size}"
            for start, one, size in zip(starts, at, descriptor.sizes, strict=True)
        )
        return f"({' && '.join(tests)})"

    # Descriptors are of tensors whose last dimension is contiguous.
    steps: tuple[Step, ...] = (*(STRIDED for _ in shape[:-1]), 1)
    pointers = Tile(Type(shape, descriptor.base.type.element), formula=write_address, steps=steps)
    return pointers, Tile(Type(shape, "i1"), formula=write_mask)


def _load(emitter: Emitter, op: Op) -> None:
    pointers, mask = _find_block(emitter, op, op.results[0].type.shape)
    load_tile(emitter, op, pointers, mask, None)


def _store(emitter: Emitter, op: Op) -> None:
    value = emitter.get(op.operands[-1])
    pointers, mask = _find_block(emitter, op, value.shape)
    store_tile(emitter, op, pointers, value, mask)


HANDLERS: dict[str, Handler] = {
    "tt.make_tensor_descriptor": _make,
    "tt.descriptor_load": _load,
    "tt.descriptor_store": _store,
}
