"""What is known of tiles before code is written: which are stored, and how far apart their elements are."""

from __future__ import annotations

from collections.abc import Sequence

from .ir import Block, Function, Op, Value
from .tiles import STRIDED, Step, Tile, is_float

#: Operations that only move elements.
SHAPED = {
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.make_range", "arith.constant", "ttc.rename",
}  # fmt: skip
_ELEMENTWISE = {
    "tt.addptr", "tt.bitcast", "tt.fp_to_fp", "tt.clampf", "tt.mulhiui", "tt.precise_sqrt", "tt.precise_divf",
    "tt.approx_divf", "tt.extern_elementwise", "tt.int_to_ptr", "tt.ptr_to_int",
}  # fmt: skip
#: Integer operations that are not repeated for each use.
_COSTLY = {"tt.mulhiui", "tt.extern_elementwise"}
#: Operations after which memory may be another.
_CHANGING = {
    "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "scf.for", "scf.if", "scf.while", "gpu.barrier", "ttg.barrier",
    "tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter", "tt.atomic_store", "tt.atomic_poll",
    "ttc.call", "tt.elementwise_inline_asm",
}  # fmt: skip
#: A shared tile whose elements take more operations than these is stored.
_MOST_REPEATED = 12


def is_elementwise(op: Op) -> bool:
    """Return whether an operation computes each element of its own operands'."""
    return op.name in _ELEMENTWISE or op.name.startswith(("arith.", "math."))


def is_pure(op: Op) -> bool:
    """Return whether an operation can be computed where its result is used."""
    return op.name in SHAPED or is_elementwise(op)


class Uses:
    """Where values are used, and which tiles are stored for that reason."""

    def __init__(self, function: Function) -> None:
        self.users: dict[Value, list[Op]] = {}
        self.block_of: dict[Op, Block] = {}
        self._stored: set[Value] = set()
        self._shared: set[Value] = set()
        self._sites: dict[Value, frozenset[Op]] = {}
        for block in function.blocks.values():
            self._index(block)
        for block in reversed(function.blocks.values()):
            self._decide(block)

    def _index(self, block: Block) -> None:
        for op in block.ops:
            self.block_of[op] = block
            for operand in (*op.operands, *(value for _, given in op.targets for value in given)):
                self.users.setdefault(operand, []).append(op)
            for region in op.regions:
                self._index(region)

    def _decide(self, block: Block) -> None:
        for op in reversed(block.ops):
            for region in op.regions:
                self._decide(region)
            if not is_pure(op) or not op.results[0].type.shape:
                continue
            result = op.results[0]
            sites = self._find_sites(result)
            if len(sites) > 1 or self._spreads(result) or any(self.block_of[site] is not block for site in sites):
                self._shared.add(result)
                is_heavy = is_float(result.type.element) and op.name not in SHAPED
                if is_heavy or op.name in _COSTLY:
                    self._stored.add(result)
                    self._sites.clear()

    def _find_sites(self, value: Value) -> frozenset[Op]:
        """Return the operations that need a value's elements, through those that are computed where they are used."""
        if value not in self._sites:
            found: set[Op] = set()
            for user in self.users.get(value, ()):
                result = user.results[0] if user.results else None
                if is_pure(user) and result is not None and result.type.shape and result not in self._stored:
                    found |= self._find_sites(result)
                else:
                    found.add(user)
            self._sites[value] = frozenset(found)
        return self._sites[value]

    def _spreads(self, value: Value) -> bool:
        """Return whether elements are used several times, for elements of a larger tile."""
        return any(
            user.name == "tt.broadcast" or (user.name in SHAPED and self._spreads(user.results[0]))
            for user in self.users.get(value, ())
        )

    def is_read_in_place(self, op: Op) -> bool:
        """Return whether nothing changes memory between a load and the operations that use it."""
        block = self.block_of[op]
        sites = self._find_sites(op.results[0])
        if any(self.block_of[site] is not block for site in sites):
            return False
        left = set(sites)
        for later in block.ops[block.ops.index(op) + 1 :]:
            left.discard(later)
            if not left:
                return True
            if later.name in _CHANGING:
                return False
        return not left

    def is_stored(self, value: Value, tile: Tile) -> bool:
        """Return whether a tile goes into an array, so that its elements are computed once."""
        if value in self._stored:
            return True
        is_long = tile.cost > _MOST_REPEATED and (not tile.shape or tile.last_step is None)
        return is_long and value in self._shared


def _add(left: Step, right: Step, sign: int = 1) -> Step:
    if left is None or right is None:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return left + sign * right
    return STRIDED


def _multiply(left: Tile, right: Tile, dimension: int) -> Step:
    for one, other in ((left, right), (right, left)):
        step = one.steps[dimension]
        if other.is_uniform and step is not None:
            if step == 0:
                return 0
            return step * other.number if isinstance(step, int) and other.number is not None else STRIDED
    return None


_SIGN = {"arith.addi": 1, "tt.addptr": 1, "arith.subi": -1}
_EXTENDING = {"arith.extsi", "arith.extui", "arith.index_cast", "tt.ptr_to_int", "tt.int_to_ptr"}
_REMAINDERS = {"arith.remsi", "arith.remui"}


def find_steps(op: Op, of: Sequence[Tile], dimensions: int) -> tuple[Step, ...]:
    """Return the steps of an element-wise operation's result."""
    if all(tile.is_uniform for tile in of):
        return (0,) * dimensions
    if op.name in _SIGN:
        return tuple(_add(a, b, _SIGN[op.name]) for a, b in zip(of[0].steps, of[1].steps, strict=True))
    if op.name == "arith.muli":
        return tuple(_multiply(of[0], of[1], dimension) for dimension in range(dimensions))
    if op.name in _EXTENDING:
        return of[0].steps
    if op.name in _REMAINDERS and of[1].is_uniform:
        return tuple(step if step in (0, 1) else None for step in of[0].steps)
    return tuple(0 if all(tile.steps[d] == 0 for tile in of) else None for d in range(dimensions))


_RISING = {"slt", "sle", "ult", "ule"}
_FALLING = {"sgt", "sge", "ugt", "uge"}


def _rises(tile: Tile) -> bool:
    return isinstance(tile.last_step, int) and tile.last_step > 0 and not tile.wraps


def find_falls(op: Op, of: Sequence[Tile], predicate: str) -> bool:
    """Return whether a mask selects the start of each row."""
    if all(tile.last_step == 0 for tile in of):
        return True
    if op.name == "arith.andi":
        return all(tile.falls for tile in of)
    if op.name == "arith.cmpi":
        left, right = of
        if predicate in _RISING:
            return _rises(left) and right.last_step == 0
        if predicate in _FALLING:
            return left.last_step == 0 and _rises(right)
    return False
