"""Loads and stores: row by row, each row checked against device memory first."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ir import Op
from ..tiles import Nest, Row, Tile, name_type
from .emitter import Emitter, Handler

#: Smaller rows are copied.
_LEAST_IN_PLACE = 64


class _Access:
    """A tile of pointers with its mask, of a load or store."""

    def __init__(self, emitter: Emitter, op: Op, kind: str, pointers: Tile, mask: Tile | None) -> None:
        self.writer, self.pointers, self.mask = emitter.writer, pointers, mask
        self._kind = kind
        self.site = self.writer.add_site(op.line)
        self.size = pointers.shape[-1] if pointers.shape else 1
        self.c_type = name_type(pointers.type.pointee)
        self.outer: list[str] = []

    def write_at(self, tile: Tile, last: str, nest: Nest) -> str:
        """Return an element of the row."""
        return self.writer.at(tile, [*self.outer, last], nest)

    def define(self, tile: Tile, last: str) -> str:
        """Define a variable with an element of the row, outside of its loop."""
        nest = Nest([])
        text = self.write_at(tile, last, nest)
        for line in nest.bodies[0]:
            self.writer.put(line)
        return text

    def define_count(self) -> str:
        """Define the number of elements at the start of the row that the mask selects."""
        if self.mask is None:
            return str(self.size)
        assert self.mask.falls
        name = self.writer.name("n")
        if self.mask.last_step == 0:
            self.writer.put(f"const int {name} = {self.define(self.mask, '0')} ? {self.size} : 0;")
            return name
        nest = Nest(["j"])
        text = self.write_at(self.mask, "j", nest)
        for line in nest.bodies[0]:
            self.writer.put(line)
        inner = " ".join(nest.inner)
        self.writer.put(
            f"const int {name} = count_selected({self.size}, [&](int j) __attribute__((always_inline)) "
            f"{{ {inner} return {text}; }});"
        )
        return name

    def write_row_loop(self, count: str, body: _Body, start: str = "0") -> None:
        """Write a loop over elements of the row."""
        index = self.writer.name("j")
        nest = Nest([index])
        body(index, nest)
        for line in nest.bodies[0]:
            self.writer.put(line)
        with self.writer.braces(f"for (int {index} = {start}; {index} < {count}; {index}++)"):
            for line in nest.inner:
                self.writer.put(line)

    def write_lvalue(self, way: _Way, index: str, nest: Nest) -> str:
        """Return an element in device memory."""
        if way.row and way.is_checked:
            return f"{way.row}[{index} * {way.stride}]" if way.stride else f"{way.row}[{index}]"
        pointer = f"{way.row} + {index}" if way.row else self.write_at(self.pointers, index, nest)
        return f"*{pointer}" if way.is_checked else f"*{self.check(pointer)}"

    def check(self, pointer: str, count: str = "1") -> str:
        """Return a pointer that is checked."""
        return self.writer.check(self._kind, self.site, pointer, count)

    def write_mask(self, index: str, nest: Nest) -> str:
        """Return whether an element is selected."""
        assert self.mask is not None
        return self.write_at(self.mask, index, nest)


class _Way(NamedTuple):
    """How the elements of a row are reached."""

    #: a pointer to the first, if they are at equal distances
    row: str
    is_checked: bool
    is_masked: bool
    #: their distance, if that is the same for all
    stride: str = ""


_Body = Callable[[str, Nest], None]
_Make = Callable[[_Way], _Body]


def _write_row(access: _Access, make: _Make) -> str:
    """Write the access of one row, and return how many elements at its start are selected.

    It is fast where its ends show that all of it is device memory.
    """
    pointers, writer = access.pointers, access.writer
    step = pointers.last_step
    is_prefix = access.mask is None or access.mask.falls
    count = access.define_count() if is_prefix else str(access.size)
    if writer.is_sanitized:  # by element
        access.write_row_loop(count, make(_Way("", False, not is_prefix)))
    elif step == 1 and access.size > 1:
        first = access.define(pointers, "0")
        row = writer.name("p")
        writer.put(f"{access.c_type}* __restrict const {row} = {first};")
        if not pointers.wraps:
            _write_contiguous(access, row, count, is_prefix, make)
            return count
        last = access.define(pointers, str(access.size - 1))
        with writer.braces(f"if ({last} - {row} == {access.size - 1})"):
            _write_contiguous(access, row, count, is_prefix, make)
        with writer.braces("else"):
            access.write_row_loop(count, make(_Way("", False, not is_prefix)))
    elif step is not None and is_prefix and not pointers.wraps and access.size > 1:
        first, second = access.define(pointers, "0"), access.define(pointers, "1")
        last = access.define(pointers, f"({count} - 1)")
        stride = writer.name("d")
        writer.put(f"const int64_t {stride} = {second} - {first};")
        with writer.braces(f"if (is_strided_row(program, {access.site}, {first}, {last}, {stride}, {count}))"):
            access.write_row_loop(count, make(_Way(first, True, False, stride)))
        with writer.braces("else"):
            access.write_row_loop(count, make(_Way("", False, False)))
    else:
        access.write_row_loop(count, make(_Way("", False, not is_prefix)))
    return count


def _write_contiguous(access: _Access, row: str, count: str, is_prefix: bool, make: _Make) -> None:
    writer = access.writer
    if is_prefix:
        guard = "" if count.isdigit() else f"if ({count} > 0) "
        writer.put(f"{guard}{access.check(row, count)};")
        access.write_row_loop(count, make(_Way(row, True, False)))
        return
    with writer.braces(f"if (is_accessible(program, {access.site}, {row}, {access.size}))"):
        access.write_row_loop(count, make(_Way(row, True, True)))
    with writer.braces("else"):
        access.write_row_loop(count, make(_Way(row, False, True)))


def _load(emitter: Emitter, op: Op) -> None:
    of = emitter.list_operands(op)
    load_tile(emitter, op, of[0], of[1] if len(of) > 1 else None, of[2] if len(of) > 2 else None)


def load_tile(emitter: Emitter, op: Op, pointers: Tile, mask: Tile | None, other: Tile | None) -> None:
    """Write a load; its result is that of `op`."""
    type_ = op.results[0].type
    kind = "volatile" if "isVolatile = true" in op.text else "read"
    access = _Access(emitter, op, kind, pointers, mask)
    writer = emitter.writer
    if not type_.shape:
        read = f"read_scalar({access.check(pointers.text)})"
        if mask is not None:
            read = f"{mask.text} ? {read} : {other.text if other is not None else f'({access.c_type})0'}"
        emitter.set(op.results[0], writer.define(type_, read))
        return
    target = writer.declare(type_)
    is_row = _is_row(pointers) and type_.size >= _LEAST_IN_PLACE and (mask is None or mask.falls)
    if is_row and not writer.is_sanitized and emitter.uses.is_read_in_place(op):
        emitter.set(op.results[0], _read_in_place(access, target, other))
        return

    def fill(index: str, nest: Nest) -> None:
        value = access.write_at(other, index, nest) if other is not None else f"({access.c_type})0"
        nest.inner.append(f"{access.write_at(target, index, nest)} = {value};")

    def make(way: _Way) -> _Body:
        def body(index: str, nest: Nest) -> None:
            place = access.write_at(target, index, nest)
            if not way.is_masked:
                nest.inner.append(f"{place} = {access.write_lvalue(way, index, nest)};")
                return
            selected, value = access.write_mask(index, nest), writer.name("x")
            if way.is_checked:  # reading all of the row is safe, and quicker than branches
                nest.inner.append(f"const {access.c_type} {value} = {access.write_lvalue(way, index, nest)};")
                rest = access.write_at(other, index, nest) if other is not None else f"({access.c_type})0"
                nest.inner.append(f"{place} = {selected} ? {value} : {rest};")
            else:
                fill(index, nest)
                nest.inner.append(f"if ({selected}) {place} = {access.write_lvalue(way, index, nest)};")

        return body

    with writer.loops(type_.shape[:-1]) as access.outer:
        count = _write_row(access, make)
        if not count.isdigit():
            access.write_row_loop(str(access.size), fill, count)
    emitter.set(op.results[0], target)


def _is_row(pointers: Tile) -> bool:
    """Return whether a tile is one contiguous row."""
    return len(pointers.shape) == 1 and pointers.last_step == 1 and not pointers.wraps


def _read_in_place(access: _Access, copy: Tile, other: Tile | None) -> Tile:
    """Return a tile that is read from device memory where it is used; from a copy if a mask leaves some out."""
    writer, count = access.writer, access.define_count()
    first = access.define(access.pointers, "0")
    row = Row(writer.name("row"), copy.name, access.size)
    writer.put(f"const {access.c_type}* {row.pointer} = {first};")
    guard = "" if count.isdigit() else f"if ({count} > 0) "
    writer.put(f"{guard}{access.check(row.pointer, count)};")
    if not count.isdigit():

        def take(index: str, nest: Nest) -> None:
            nest.inner.append(f"{copy.name}[{index}] = {row.pointer}[{index}];")

        def fill(index: str, nest: Nest) -> None:
            value = access.write_at(other, index, nest) if other is not None else f"({access.c_type})0"
            nest.inner.append(f"{copy.name}[{index}] = {value};")

        with writer.braces(f"if ({count} < {access.size})"):
            access.write_row_loop(count, take)
            access.write_row_loop(str(access.size), fill, count)
            writer.put(f"{row.pointer} = {copy.name};")
    formula = lambda at, nest: f"{row.pointer}[{at[0]}]"  # noqa: E731
    return Tile(copy.type, formula=formula, rows=frozenset({row}))


def _store(emitter: Emitter, op: Op) -> None:
    of = emitter.list_operands(op)
    store_tile(emitter, op, of[0], of[1], of[2] if len(of) > 2 else None)


def store_tile(emitter: Emitter, op: Op, pointers: Tile, value: Tile, mask: Tile | None) -> None:
    """Write a store."""
    access = _Access(emitter, op, "write", pointers, mask)
    writer = emitter.writer
    if not pointers.shape:
        guard = f"if ({mask.text}) " if mask is not None else ""
        writer.put(f"{guard}*{access.check(pointers.text)} = {value.text};")
        return

    for row in sorted(
        {*value.rows, *pointers.rows, *(mask.rows if mask is not None else ())}, key=lambda row: row.copy
    ):
        _copy_overlapping(access, row)

    def make(way: _Way) -> _Body:
        def body(index: str, nest: Nest) -> None:
            element = access.write_at(value, index, nest)
            condition = f"if ({access.write_mask(index, nest)}) " if way.is_masked else ""
            nest.inner.append(f"{condition}{access.write_lvalue(way, index, nest)} = {element};")

        return body

    with writer.loops(pointers.shape[:-1]) as access.outer:
        _write_row(access, make)


def _copy_overlapping(access: _Access, row: Row) -> None:
    """Copy a row that is read in place, unless what is stored is known to be elsewhere: all is read before."""
    writer, condition = access.writer, "true"
    if _is_row(access.pointers):
        first = access.define(access.pointers, "0")
        condition = f"overlaps({first}, {access.size}, {row.pointer}, {row.size})"
    writer.put(f"if ({condition}) {row.pointer} = copy_row({row.copy}, {row.pointer}, {row.size});")


HANDLERS: dict[str, Handler] = {"tt.load": _load, "tt.store": _store}
