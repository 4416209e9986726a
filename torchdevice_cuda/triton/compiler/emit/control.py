"""Loops, conditions and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..ir import Block, Op, Unsupported, Value
from ..tiles import Nest, Tile, flatten, name_type
from .emitter import Emitter, Handler, walk

_ACCESSES = {"tt.load", "tt.store", "tt.atomic_cas", "tt.atomic_rmw", "tt.atomic_load", "tt.atomic_store"}
_WORK = {"tt.store", "tt.dot", "tt.dot_scaled", "tt.descriptor_store"}
#: How many times blocks may be written: branches that meet again are written once for each way to them.
_MOST_BLOCKS = 64


def _declare_carried(emitter: Emitter, value: Value, initial: Tile) -> Tile:
    """Declare a variable that a loop carries, with its first value."""
    target = emitter.writer.declare(value.type, "c")
    emitter.writer.assign(target, initial)
    emitter.set(value, target)
    return target


class _Offset:
    """A carried tile that the loop only moves by a number: its first value, and how far it was moved."""

    def __init__(self, emitter: Emitter, value: Value, initial: Tile, step: Value) -> None:
        self._emitter, self._step = emitter, step
        writer = emitter.writer
        initial = writer.store(initial) if initial.rows else initial  # the loop may change memory
        self.name = writer.name("off")
        c_type = "int64_t" if value.type.is_pointer else name_type(value.type.element)
        writer.put(f"{c_type} {self.name} = 0;")

        def formula(at: Sequence[str], nest: Nest) -> str:
            return f"({writer.at(initial, at, nest)} + {self.name})"

        self.tile = Tile(value.type, formula=formula, steps=initial.steps, wraps=initial.wraps, cost=initial.cost + 1)
        emitter.set(value, self.tile)

    def advance(self) -> str:
        """Return the line that moves it."""
        step = self._emitter.get(self._step)
        nest = Nest([])
        text = self._emitter.writer.at(step, ["0"] * len(step.shape), nest)
        return f"{{ {' '.join(nest.bodies[0])} {self.name} += {text}; }}"


def _find_step(emitter: Emitter, block: Block, value: Value, yielded: Value) -> Value | None:
    """Return what a carried tile is moved by in each round, if that is one number for all elements."""
    made = {result: op for op in block.ops for result in op.results}
    op = made.get(yielded)
    if not value.type.shape or op is None or op.name not in ("tt.addptr", "arith.addi") or op.operands[0] is not value:
        return None
    step = op.operands[1]
    if step in made:
        return step if made[step].name in ("tt.splat", "arith.constant") else None
    return step if emitter.get(step).is_uniform else None


def _declare_looping(emitter: Emitter, block: Block) -> str:
    """Declare what ends a loop whose launch is over; one of scalars alone needs none, and compilers make it short."""
    if not any(op.name in _ACCESSES or op.regions or any(one.type.shape for one in op.results) for op in block.ops):
        return ""
    name = emitter.writer.name("looping")
    emitter.writer.put(f"Looping {name};")
    return name


def _for(emitter: Emitter, op: Op) -> None:
    writer, block = emitter.writer, op.regions[0]
    counter, carried = block.args[0], block.args[1:]
    initial = [emitter.get(value) for value in op.operands[3:]]
    yielded = block.last.operands if block.last.name == "scf.yield" else []
    slots: list[Tile | _Offset] = []
    for value, first, final in zip(carried, initial, yielded, strict=True):
        step = _find_step(emitter, block, value, final)
        if step is not None:
            slots.append(_Offset(emitter, value, first, step))
        else:
            slots.append(_declare_carried(emitter, value, first))
    low, high, step_text = (emitter.get(value).text for value in op.operands[:3])
    c_type = name_type(counter.type.element)
    if "unsigned" in op.text:
        c_type = f"make_unsigned<{c_type}>::type"
    index = writer.name("iv")
    emitter.set(counter, Tile(counter.type, index))
    looping = _declare_looping(emitter, block)
    with writer.braces(f"for ({c_type} {index} = {low}; {index} < ({c_type}){high}; {index} += {step_text})"):
        if looping:
            writer.put(f"{looping}.again(program);")
        emitter.emit_block(block)
        _carry(emitter, slots, [emitter.get(value) for value in yielded])
    for result, slot in zip(op.results, slots, strict=True):
        emitter.set(result, slot if isinstance(slot, Tile) else slot.tile)


def _write_text(emitter: Emitter, tile: Tile) -> str:
    """Return all that is computed for an element, to look for names in it."""
    if tile.formula is None:
        return tile.text
    nest = Nest([f"@{dimension}" for dimension in range(len(tile.shape))])
    text = emitter.writer.at(tile, nest.indices, nest)
    return "\n".join(line for body in nest.bodies for line in body) + text


def _carry(emitter: Emitter, slots: Sequence[Tile | _Offset], values: Sequence[Tile]) -> None:
    """Assign the next round's values; none is changed before all that use it are computed."""
    writer, tiles, scalars = emitter.writer, list[tuple[Tile, Tile]](), list[str]()
    texts = [_write_text(emitter, value) for value in values]
    for place, (slot, value) in enumerate(zip(slots, values, strict=True)):
        if isinstance(slot, _Offset):
            scalars.append(slot.advance())
        elif not slot.shape:
            held = writer.define(slot.type, value.text)
            scalars.append(f"{slot.name} = {held.name};")
        elif value.name != slot.name:
            here = f"{slot.name}[{flatten([f'@{d}' for d in range(len(slot.shape))], slot.shape)}]"
            others = "".join(text for other, text in enumerate(texts) if other != place)
            is_elementwise = texts[place].count(f"{slot.name}[") == texts[place].count(here)
            if value.formula is not None and (not is_elementwise or f"{slot.name}[" in others):
                value = writer.store(value)
            elif value.is_array and any(isinstance(one, Tile) and one.name == value.name for one in slots):
                copy = writer.declare(value.type)
                writer.assign(copy, value)
                value = copy
            tiles.append((slot, value))
    for target, value in tiles:
        writer.assign(target, value)
    for line in scalars:
        writer.put(line)


def _if(emitter: Emitter, op: Op) -> None:
    writer = emitter.writer
    results = [writer.declare(result.type, "f") for result in op.results]
    condition = emitter.get(op.operands[0]).text
    for head, block in zip((f"if ({condition})", "else"), op.regions, strict=False):
        with writer.braces(head):
            last = emitter.emit_block(block) if block.ops else None
            for target, value in zip(results, last.operands if last is not None else (), strict=False):
                writer.assign(target, emitter.get(value))
    for result, tile in zip(op.results, results, strict=True):
        emitter.set(result, tile)


def _is_waiting(op: Op) -> bool:
    """Return whether a loop waits for another program: it reads what others write, and does no work itself."""
    inner = [one for region in op.regions for one in walk(region)]
    if any(one.name in _WORK for one in inner):
        return False
    return any(one.name.startswith("tt.atomic_") or "isVolatile = true" in one.text for one in inner)


def _while(emitter: Emitter, op: Op) -> None:
    writer = emitter.writer
    before, after = op.regions
    carried = [
        _declare_carried(emitter, value, emitter.get(initial))
        for value, initial in zip(before.args, op.operands, strict=True)
    ]
    finals = [writer.declare(result.type, "f") for result in op.results]
    waits = _is_waiting(op)
    waiting, site = writer.name("waiting"), writer.add_site(op.line)
    writer.waits |= waits
    writer.put(f"{'Waiting' if waits else 'Looping'} {waiting};")
    with writer.braces("for (;;)"):
        writer.put(f"{waiting}.again(program{f', {site}' if waits else ''});")
        condition = emitter.emit_block(before)
        for target, value in zip(finals, condition.operands[1:], strict=True):
            writer.assign(target, emitter.get(value))
        writer.put(f"if (!({emitter.get(condition.operands[0]).text})) break;")
        for value, tile in zip(after.args, finals, strict=True):
            emitter.set(value, tile)
        last = emitter.emit_block(after)
        _carry(emitter, carried, [emitter.get(value) for value in last.operands])
    for result, tile in zip(op.results, finals, strict=True):
        emitter.set(result, tile)


class Branches:
    """Blocks that end by branches, of a kernel or of a function of elements. They never lead back."""

    def __init__(self, emitter: Emitter, blocks: dict[str, Block], finish: Callable[[Op], None]) -> None:
        """`finish` writes the operation that ends all of them."""
        self._emitter, self._blocks, self._finish, self._written = emitter, blocks, finish, 0

    def emit(self, label: str) -> None:
        """Write a block and those that it leads to."""
        self._written += 1
        if self._written > _MOST_BLOCKS:
            raise Unsupported(f"more than {_MOST_BLOCKS} branches")
        emitter = self._emitter
        last = emitter.emit_block(self._blocks[label])
        if last.name == "cf.br":
            self._follow(*last.targets[0])
        elif last.name == "cf.cond_br":
            condition = emitter.get(last.operands[0]).text
            for head, (target, given) in zip((f"if ({condition})", "else"), last.targets, strict=True):
                with emitter.writer.braces(head):
                    self._follow(target, given)
        else:
            self._finish(last)

    def _follow(self, label: str, given: Sequence[Value]) -> None:
        emitter = self._emitter
        tiles = [emitter.get(value) for value in given]
        tiles = [emitter.writer.store(tile) if tile.rows else tile for tile in tiles]
        for value, tile in zip(self._blocks[label].args, tiles, strict=True):
            emitter.set(value, tile)
        self.emit(label)


def _map(emitter: Emitter, op: Op) -> None:
    """Write a function of elements that may have branches; it may take several that follow each other."""
    of, writer, pack = emitter.list_operands(op), emitter.writer, op.read_int("pack")
    results = [writer.declare(result.type) for result in op.results]
    blocks = dict(zip(op.labels, op.regions, strict=True))

    def list_elements(tiles: Sequence[Tile], at: list[str], nest: Nest) -> list[str]:
        if pack == 1:
            return [writer.at(tile, at, nest) for tile in tiles]
        return [f"{tile.name}[{at[0]} * {pack} + {number}]" for tile in tiles for number in range(pack)]

    def body(at: list[str], nest: Nest) -> None:
        for value, text in zip(op.regions[0].args, list_elements(of, at, nest), strict=True):
            emitter.set(value, Tile(value.type, text))

        def finish(last: Op) -> None:
            for place, value in zip(list_elements(results, at, nest), last.operands, strict=True):
                writer.put(f"{place} = {emitter.get(value).text};")
            writer.put("return;")

        lines, writer.lines = writer.lines, []
        Branches(emitter, blocks, finish).emit(op.labels[0])
        written, writer.lines = writer.lines, lines
        nest.inner.extend(["[&]() __attribute__((always_inline)) {", *written, "}();"])

    shape = of[0].shape
    if pack > 1:
        of, shape = [writer.store(tile) for tile in of], (of[0].type.size // pack,)
    writer.write_nest(shape, body)
    for result, tile in zip(op.results, results, strict=True):
        emitter.set(result, tile)


def _call(emitter: Emitter, op: Op) -> None:
    """Write a function that may return early, in the place of its call."""
    writer = emitter.writer
    results = [writer.declare(result.type, "f") for result in op.results]

    def finish(last: Op) -> None:
        for result, value in zip(results, last.operands, strict=True):
            writer.assign(result, emitter.get(value))
        writer.put("return;")

    call = writer.name("call")
    with writer.braces(f"const auto {call} = [&]()", ";"):
        Branches(emitter, dict(zip(op.labels, op.regions, strict=True)), finish).emit(op.labels[0])
    writer.put(f"{call}();")
    for result, tile in zip(op.results, results, strict=True):
        emitter.set(result, tile)


HANDLERS: dict[str, Handler] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "tt.map_elementwise": _map,
    "ttc.call": _call,
}
