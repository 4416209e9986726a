"""Operations that move elements: most are other indices into the tile that they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Op, Type
from ..tiles import Nest, Tile, flatten, name_type
from .elementwise import write_literal
from .emitter import Emitter, Handler

_Move = Callable[[Sequence[str]], Sequence[str]]


def _move(emitter: Emitter, op: Op, indices: _Move, **known: object) -> None:
    """Define the result by the indices of its elements in the operand."""
    source = emitter.get(op.operands[0])

    def formula(at: Sequence[str], nest: Nest) -> str:
        return emitter.writer.at(source, indices(at), nest)

    tile = Tile(op.results[0].type, formula=formula, wraps=source.wraps, cost=source.cost, rows=source.rows)
    for name, value in known.items():
        setattr(tile, name, value)
    emitter.set_shared(op.results[0], tile)


def _constant(emitter: Emitter, op: Op) -> None:
    type_ = op.results[0].type
    literal, number = write_literal(op, type_)
    emitter.set(op.results[0], Tile(type_, literal=literal, steps=(0,) * len(type_.shape), falls=True, number=number))


def _rename(emitter: Emitter, op: Op) -> None:
    emitter.set(op.results[0], emitter.get(op.operands[0]))


def _make_range(emitter: Emitter, op: Op) -> None:
    start = op.read_int("start")
    formula = lambda at, nest: f"(int32_t)({at[0]} + {start})"  # noqa: E731
    emitter.set(op.results[0], Tile(op.results[0].type, formula=formula, steps=(1,), cost=1))


def _splat(emitter: Emitter, op: Op) -> None:
    source, type_ = emitter.get(op.operands[0]), op.results[0].type
    steps = (0,) * len(type_.shape)
    tile = Tile(type_, literal=source.text, steps=steps, falls=True, number=source.number)
    if source.shape:
        at = ["0"] * len(source.shape)
        tile.literal, tile.formula = "", lambda _, nest: emitter.writer.at(source, at, nest)
    emitter.set(op.results[0], tile)


def _unsplat(emitter: Emitter, op: Op) -> None:
    source = emitter.writer.store(emitter.get(op.operands[0]))
    emitter.set(op.results[0], emitter.writer.define(op.results[0].type, f"{source.name}[0]"))


def _broadcast(emitter: Emitter, op: Op) -> None:
    source, shape = emitter.get(op.operands[0]), op.results[0].type.shape
    if source.literal:
        emitter.set(
            op.results[0], Tile(op.results[0].type, literal=source.literal, steps=(0,) * len(shape), falls=True)
        )
        return
    spread = [was == 1 and now != 1 for was, now in zip(source.shape, shape, strict=True)]
    steps = tuple(0 if is_spread else step for is_spread, step in zip(spread, source.steps, strict=True))
    indices: _Move = lambda at: ["0" if is_spread else one for is_spread, one in zip(spread, at, strict=True)]  # noqa: E731
    _move(emitter, op, indices, steps=steps, falls=source.falls or spread[-1] or source.shape[-1] == 1)


def _expand_dims(emitter: Emitter, op: Op) -> None:
    source, axis = emitter.get(op.operands[0]), op.read_int("axis")
    steps = (*source.steps[:axis], 0, *source.steps[axis:])
    is_last = axis == len(source.shape)
    _move(emitter, op, lambda at: [*at[:axis], *at[axis + 1 :]], steps=steps, falls=is_last or source.falls)


def _trans(emitter: Emitter, op: Op) -> None:
    source = emitter.get(op.operands[0])
    order = [int(one) for one in op.find(r"order = array<i32: ([\d, ]+)>").split(",")]
    places = [order.index(dimension) for dimension in range(len(order))]
    steps = tuple(source.steps[dimension] for dimension in order)
    is_last = order[-1] == len(order) - 1
    _move(emitter, op, lambda at: [at[place] for place in places], steps=steps, falls=is_last and source.falls)


def _reshape(emitter: Emitter, op: Op) -> None:
    source, type_ = emitter.get(op.operands[0]), op.results[0].type
    if source.literal or source.shape == type_.shape:
        same = Tile(type_, source.name, source.literal, source.formula, source.steps, source.wraps, source.falls)
        same.cost, same.rows = source.cost, source.rows
        if source.literal:
            same.steps = (0,) * len(type_.shape)
        emitter.set(op.results[0], same)
        return
    if [size for size in source.shape if size != 1] == [size for size in type_.shape if size != 1]:
        _reshape_by_ones(emitter, op, source, type_)
        return
    emitter.set(op.results[0], Tile(type_, emitter.writer.store(source).name))


def _reshape_by_ones(emitter: Emitter, op: Op, source: Tile, type_: Type) -> None:
    """Add or remove dimensions of size one."""
    kept = [dimension for dimension, size in enumerate(type_.shape) if size != 1]
    steps_kept = iter([step for step, size in zip(source.steps, source.shape, strict=True) if size != 1])
    steps = tuple(0 if size == 1 else next(steps_kept) for size in type_.shape)

    def indices(at: Sequence[str]) -> list[str]:
        rest = iter(kept)
        return ["0" if size == 1 else at[next(rest)] for size in source.shape]

    is_last = type_.shape[-1] == 1 or (source.falls and source.shape[-1] != 1)
    _move(emitter, op, indices, steps=steps, falls=is_last)


def _join(emitter: Emitter, op: Op) -> None:
    left, right = emitter.list_operands(op)

    def formula(at: Sequence[str], nest: Nest) -> str:
        return f"({at[-1]} ? {emitter.writer.at(right, at[:-1], nest)} : {emitter.writer.at(left, at[:-1], nest)})"

    cost = left.cost + right.cost + 1
    emitter.set_shared(op.results[0], Tile(op.results[0].type, formula=formula, cost=cost, rows=left.rows | right.rows))


def _split(emitter: Emitter, op: Op) -> None:
    source = emitter.writer.store(emitter.get(op.operands[0]))
    for place, result in enumerate(op.results):
        formula = lambda at, nest, place=str(place): emitter.writer.at(source, [*at, place], nest)  # noqa: E731
        tile = Tile(result.type, formula=formula, cost=1)
        if not result.type.shape:
            tile = emitter.writer.define(result.type, f"{source.name}[{place}]")
        emitter.set(result, tile)


def _cat(emitter: Emitter, op: Op) -> None:
    type_ = op.results[0].type
    target = emitter.writer.declare(type_)
    start = 0
    for source in emitter.list_operands(op):

        def body(at: list[str], nest: Nest, source: Tile = source, start: int = start) -> None:
            place = f"{start} + {flatten(at, source.shape)}"
            nest.inner.append(f"{target.name}[{place}] = {emitter.writer.at(source, at, nest)};")

        emitter.writer.write_nest(source.shape, body)
        start += source.type.size
    emitter.set(op.results[0], target)


def _gather(emitter: Emitter, op: Op) -> None:
    source, index = emitter.list_operands(op)
    axis = op.read_int("axis")
    source = emitter.writer.store(source)

    def formula(at: Sequence[str], nest: Nest) -> str:
        # An index outside of the tile reads the GPU's shared memory, which is any value: here that of another element.
        place = f"(uint32_t){emitter.writer.at(index, at, nest)} % {source.shape[axis]}u"
        return emitter.writer.at(source, [*at[:axis], f"(int)({place})", *at[axis + 1 :]], nest)

    emitter.set(op.results[0], emitter.writer.store(Tile(op.results[0].type, formula=formula)))


def _histogram(emitter: Emitter, op: Op) -> None:
    source = emitter.get(op.operands[0])
    mask = emitter.get(op.operands[1]) if len(op.operands) > 1 else None
    type_ = op.results[0].type
    target = emitter.writer.declare(type_)
    emitter.writer.put(f"memset({target.name}, 0, sizeof {target.name});")

    def body(at: list[str], nest: Nest) -> None:
        value = f"(uint64_t)as_unsigned({emitter.writer.at(source, at, nest)})"
        selected = f" && {emitter.writer.at(mask, at, nest)}" if mask is not None else ""
        nest.inner.append(f"if ({value} < {type_.size}{selected}) {target.name}[{value}]++;")

    emitter.writer.write_nest(source.shape, body)
    emitter.set(op.results[0], target)


def _program_id(emitter: Emitter, op: Op) -> None:
    axis = "xyz".index(op.find(r" ([xyz])$"))
    name = f"program.index[{axis}]" if op.name.endswith("id") else f"program.launch.grid[{axis}]"
    emitter.set(op.results[0], emitter.writer.define(op.results[0].type, name))


def _poison(emitter: Emitter, op: Op) -> None:
    type_ = op.results[0].type
    literal = f"({name_type(type_.element)})0"
    emitter.set(op.results[0], Tile(type_, literal=literal, steps=(0,) * len(type_.shape), falls=True))


HANDLERS: dict[str, Handler] = {
    "arith.constant": _constant,
    "ttc.rename": _rename,
    "tt.make_range": _make_range,
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.broadcast": _broadcast,
    "tt.expand_dims": _expand_dims,
    "tt.trans": _trans,
    "tt.reshape": _reshape,
    "tt.join": _join,
    "tt.split": _split,
    "tt.cat": _cat,
    "tt.gather": _gather,
    "tt.histogram": _histogram,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _program_id,
    "ub.poison": _poison,
}
#: Operations that order threads or launches: a program is one thread, and a launch ends before the next begins.
_ORDERING = (
    "gpu.barrier", "ttg.barrier", "llvm.intr.assume", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents",
)  # fmt: skip
HANDLERS |= dict.fromkeys(_ORDERING, lambda emitter, op: None)
