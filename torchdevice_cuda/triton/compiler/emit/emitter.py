"""What the families of operations share: the values that are known, and how others are computed from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..analysis import Uses, find_falls, find_steps, is_elementwise
from ..ir import Block, Function, Op, Type, Unsupported, Value
from ..tiles import Nest, Tile
from ..writer import Writer
from .counts import write_count
from .elementwise import read_predicate, write_element

Handler = Callable[["Emitter", Op], None]


class Emitter:
    """Writes a kernel's body."""

    def __init__(
        self, function: Function, handlers: dict[str, Handler], is_sanitized: bool, is_counted: bool = False
    ) -> None:
        self.function = function
        self.uses = Uses(function)
        self.writer = Writer(is_sanitized or is_counted)
        self._is_counted = is_counted
        self._handlers = handlers
        self._tiles: dict[Value, Tile] = {}

    def get(self, value: Value) -> Tile:
        """Return a value that was computed."""
        return self._tiles[value]

    def list_operands(self, op: Op) -> list[Tile]:
        """Return the operands of an operation."""
        return [self._tiles[value] for value in op.operands]

    def set(self, value: Value, tile: Tile) -> None:
        """Say what a value is."""
        self._tiles[value] = tile

    def set_shared(self, value: Value, tile: Tile) -> None:
        """Say what a value is; store it where it would be computed several times."""
        is_stored = tile.shape and self.uses.is_stored(value, tile)
        self._tiles[value] = self.writer.store(tile) if is_stored else tile

    # ------------------------------------------------------------ operations
    def emit_block(self, block: Block) -> Op:
        """Write the operations of a block but its last, which is returned."""
        for op in block.ops[:-1]:
            self.emit(op)
        return block.last

    def emit(self, op: Op) -> None:
        """Write an operation."""
        if self._is_counted:
            write_count(self.writer, op)
        handler = self._handlers.get(op.name)
        if handler is not None:
            handler(self, op)
        elif is_elementwise(op):
            self._emit_elementwise(op)
        else:
            raise Unsupported(f"the operation {op.name}")

    def _emit_elementwise(self, op: Op) -> None:
        type_ = op.results[0].type
        of = self.list_operands(op)
        if not type_.shape:
            text = write_element(op, [tile.text for tile in of], [tile.type for tile in of], type_)
            self.set(op.results[0], self.writer.define(type_, text))
            return
        of = [tile if tile.shape else _spread(tile, type_.shape) for tile in of]
        write_element(op, ["x"] * len(of), [tile.type for tile in of], type_)  # refuse now what cannot be written
        tile = Tile(type_, formula=self._make_formula(op, of, type_), steps=find_steps(op, of, len(type_.shape)))
        tile.wraps = any(one.wraps for one in of) or op.name in ("arith.remsi", "arith.remui")
        tile.falls = type_.element == "i1" and find_falls(op, of, read_predicate(op))
        tile.cost = 1 + sum(one.cost for one in of)
        tile.rows = frozenset().union(*(one.rows for one in of))
        self.set_shared(op.results[0], tile)

    def _make_formula(self, op: Op, of: Sequence[Tile], type_: Type) -> Callable[[Sequence[str], Nest], str]:
        def formula(at: Sequence[str], nest: Nest) -> str:
            given = [self.writer.at(tile, at, nest) for tile in of]
            return write_element(op, given, [tile.type for tile in of], type_)

        return formula

    # --------------------------------------------------------------- regions
    def combine(self, region: Block, left: Sequence[str], right: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the lines of a reduction's region for texts of elements, and the texts of its results."""
        for value, text in zip(region.args, [*left, *right], strict=True):
            self.set(value, Tile(value.type, text))
        lines, self.writer.lines = self.writer.lines, []
        depth, self.writer.depth = self.writer.depth, 0
        is_counted, self._is_counted = self._is_counted, False  # each element's count is that of the whole
        last = self.emit_block(region)
        self._is_counted = is_counted
        written, self.writer.lines = self.writer.lines, lines
        self.writer.depth = depth
        return written, [tile.text for tile in self.list_operands(last)]


def _spread(scalar: Tile, shape: tuple[int, ...]) -> Tile:
    """Return a tile of a scalar: what selects between tiles may be one."""
    type_ = Type(shape, scalar.type.element)
    return Tile(type_, literal=scalar.text, steps=(0,) * len(shape), falls=True, number=scalar.number)


def walk(block: Block) -> Iterator[Op]:
    """Return the operations of a block and of the regions in it."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)
