"""Reductions and scans. Their order is always the same: lanes first, then halves of lanes."""

from __future__ import annotations

from ..ir import Op
from ..tiles import Nest, Tile, flatten, name_type
from .emitter import Emitter, Handler

_LANES = 64


def _reduce(emitter: Emitter, op: Op) -> None:
    of, axis, writer = emitter.list_operands(op), op.read_int("axis"), emitter.writer
    results = [writer.declare(result.type, "a" if result.type.shape else "s") for result in op.results]
    if axis != len(of[0].shape) - 1:
        _reduce_rows(emitter, op, of, results, axis)
    else:
        kept = of[0].shape[:-1]
        with writer.loops(kept) as outer, writer.braces():
            _reduce_lanes(emitter, op, of, results, outer)
    for value, tile in zip(op.results, results, strict=True):
        emitter.set(value, tile)


def _reduce_rows(emitter: Emitter, op: Op, of: list[Tile], results: list[Tile], axis: int) -> None:
    """Combine the elements along a dimension that is not the last: rows with rows."""
    shape, writer = of[0].shape, emitter.writer
    kept, along = (*shape[:axis], *shape[axis + 1 :]), writer.name("k")
    for is_first in (True, False):

        def body(at: list[str], nest: Nest, is_first: bool = is_first) -> None:
            full = [*at[:axis], "0" if is_first else along, *at[axis:]]
            new = [writer.at(tile, full, nest) for tile in of]
            places = [writer.at(result, at, nest) for result in results]
            if not is_first:
                lines, new = emitter.combine(op.regions[0], places, new)
                nest.inner.extend(lines)
            _assign(nest.inner, places, new, emitter)

        if is_first:
            writer.write_nest(kept, body)
        elif shape[axis] > 1:
            with writer.braces(f"for (int {along} = 1; {along} < {shape[axis]}; {along}++)"):
                writer.write_nest(kept, body)


def _assign(lines: list[str], places: list[str], values: list[str], emitter: Emitter) -> None:
    """Assign several values; none of them may see what another was assigned to."""
    if len(places) == 1:
        lines.append(f"{places[0]} = {values[0]};")
        return
    held = [emitter.writer.name("h") for _ in places]
    lines += [f"const auto {name} = {value};" for name, value in zip(held, values, strict=True)]
    lines += [f"{place} = {name};" for place, name in zip(places, held, strict=True)]


def _reduce_lanes(emitter: Emitter, op: Op, of: list[Tile], results: list[Tile], outer: list[str]) -> None:
    """Combine the elements of a row."""
    writer, region = emitter.writer, op.regions[0]
    size = of[0].shape[-1]
    lanes = min(size, _LANES)
    sums = [writer.name("sum") for _ in of]
    for tile, name in zip(of, sums, strict=True):
        writer.put(f"alignas(64) {name_type(tile.type.element)} {name}[{lanes}];")
    lane, block = writer.name("l"), writer.name("b")

    def write(index: str, is_first: bool) -> None:
        nest = Nest([block, lane])
        new = [writer.at(tile, [*outer, index], nest) for tile in of]
        places = [f"{name}[{lane}]" for name in sums]
        if not is_first:
            lines, new = emitter.combine(region, places, new)
            nest.inner.extend(lines)
        _assign(nest.inner, places, new, emitter)
        for line in nest.bodies[0]:
            writer.put(line)
        head = f"for (int {block} = {lanes}; {block} < {size}; {block} += {lanes})" if not is_first else ""
        with writer.braces(head):
            for line in nest.bodies[1]:
                writer.put(line)
            with writer.braces(f"for (int {lane} = 0; {lane} < {lanes}; {lane}++)"):
                for line in nest.inner:
                    writer.put(line)

    write(lane, True)
    if size > lanes:
        write(f"({block} + {lane})", False)
    width = lanes // 2
    while width:
        here, there = [f"{name}[{lane}]" for name in sums], [f"{name}[{lane} + {width}]" for name in sums]
        lines, new = emitter.combine(region, here, there)
        _assign(lines, here, new, emitter)
        with writer.braces(f"for (int {lane} = 0; {lane} < {width}; {lane}++)"):
            for line in lines:
                writer.put(line)
        width //= 2
    for result, name in zip(results, sums, strict=True):
        place = f"{result.name}[{flatten(outer, result.shape)}]" if result.shape else result.name
        writer.put(f"{place} = {name}[0];")


def _scan(emitter: Emitter, op: Op) -> None:
    of, axis, writer = emitter.list_operands(op), op.read_int("axis"), emitter.writer
    is_reversed = "reverse = true" in op.text
    shape = of[0].shape
    results = [writer.declare(result.type) for result in op.results]
    kept, count, along = (*shape[:axis], *shape[axis + 1 :]), writer.name("k"), writer.name("k")
    last = f"{shape[axis] - 1} - {count}" if is_reversed else count
    for is_first in (True, False):

        def body(at: list[str], nest: Nest, is_first: bool = is_first) -> None:
            full = [*at[:axis], along, *at[axis:]]
            before = [*at[:axis], f"({along} {'+' if is_reversed else '-'} 1)", *at[axis:]]
            new = [writer.at(tile, full, nest) for tile in of]
            if not is_first:
                lines, new = emitter.combine(op.regions[0], [writer.at(one, before, nest) for one in results], new)
                nest.inner.extend(lines)
            _assign(nest.inner, [writer.at(result, full, nest) for result in results], new, emitter)

        start, end = (0, 1) if is_first else (1, shape[axis])
        with writer.braces(f"for (int {count} = {start}; {count} < {end}; {count}++)"):
            writer.put(f"const int {along} = {last};")
            writer.write_nest(kept, body)
    for value, tile in zip(op.results, results, strict=True):
        emitter.set(value, tile)


HANDLERS: dict[str, Handler] = {"tt.reduce": _reduce, "tt.scan": _scan}
