"""Writing C++: lines, names, loops and arrays."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence

from .ir import Type, Unsupported
from .tiles import Nest, Tile, count_bytes, name_type, split_index

_LARGEST_STACK = 1 << 29
#: Tiles of more dimensions are one loop: compilers unroll many short ones. Sorting makes a dimension of every bit.
_MOST_LOOPS = 3


class Writer:
    """The body of a kernel."""

    def __init__(self, is_sanitized: bool = False) -> None:
        #: whether each access is noted, for the tools of --sanitize
        self.is_sanitized = is_sanitized
        self.lines: list[str] = []
        self.depth = 1
        self._count = 0
        #: the type of the elements in products of matrices, which a count needs
        self.product_type = ""
        #: the bytes of all arrays
        self.stack = 0
        #: file and line of each memory access and assertion
        self.sites: list[str] = []
        #: whether a program may wait for another
        self.waits = False
        #: headers besides the runtime's
        self.headers: set[str] = set()

    def put(self, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * self.depth + line)

    def name(self, stem: str) -> str:
        """Return a name that nothing has."""
        self._count += 1
        return f"{stem}{self._count}"

    def add_site(self, line: str) -> int:
        """Number a place that may fail."""
        self.sites.append(line)
        return len(self.sites) - 1

    def check(self, kind: str, site: int, pointer: str, count: str = "1") -> str:
        """Return C++ for a pointer that is checked before it is used: to ``read`` or ``write`` elements."""
        return f"check{f'_{kind}' * self.is_sanitized}(program, {site}, {pointer}{f', {count}' * (count != '1')})"

    def check_atomic(self, site: int, pointer: str, c_type: str, tells: bool) -> str:
        """Return the same for an atomic operation; ``tells``: it releases what the program has written."""
        if not self.is_sanitized:
            return self.check("", site, pointer)
        return f"AtomicUse<{c_type}>(program, {site}, {pointer}, {str(tells).lower()}).address"

    @contextlib.contextmanager
    def braces(self, head: str = "", end: str = "") -> Iterator[None]:
        """Write a block."""
        self.put(f"{head} {{".strip())
        self.depth += 1
        yield
        self.depth -= 1
        self.put(f"}}{end}")

    @contextlib.contextmanager
    def loops(self, shape: Sequence[int], stem: str = "r") -> Iterator[list[str]]:
        """Write loops around what is written inside; the value is their indices."""
        indices = [self.name(stem) for _ in shape]
        if len(shape) > _MOST_LOOPS:
            flat = self.name(stem)
            with self.braces(f"for (int {flat} = 0; {flat} < {math.prod(shape)}; {flat}++)"):
                for line in split_index(flat, indices, shape):
                    self.put(line)
                yield indices
            return
        with contextlib.ExitStack() as stack:
            for index, size in zip(indices, shape, strict=True):
                stack.enter_context(self.braces(f"for (int {index} = 0; {index} < {size}; {index}++)"))
            yield indices

    def write_nest(self, shape: tuple[int, ...], body: Callable[[list[str], Nest], None]) -> None:
        """Write loops over a shape; `body` fills the innermost."""
        is_flat = len(shape) > _MOST_LOOPS
        nest = Nest([self.name("i") for _ in shape], shape, self.name("i") if is_flat else "")
        sizes = [math.prod(shape)] if is_flat else shape
        if is_flat:
            nest.inner.extend(split_index(nest.flat, nest.indices, shape))
        body(nest.indices, nest)
        with contextlib.ExitStack() as stack:
            for line in nest.bodies[0]:
                self.put(line)
            for index, size, lines in zip(
                [nest.flat] if is_flat else nest.indices, sizes, nest.bodies[1:], strict=True
            ):
                stack.enter_context(self.braces(f"for (int {index} = 0; {index} < {size}; {index}++)"))
                for line in lines:
                    self.put(line)

    # ---------------------------------------------------------------- values
    def declare(self, type_: Type, stem: str = "a") -> Tile:
        """Declare an array, or a scalar."""
        tile = Tile(type_, self.name(stem))
        c_type = name_type(type_.element)
        if not type_.shape:
            self.put(f"{c_type} {tile.name};")
            return tile
        size = type_.size
        self.stack += size * count_bytes(type_.element) + 64
        if self.stack > _LARGEST_STACK:
            raise Unsupported(f"tiles of more than {_LARGEST_STACK >> 20} MiB in one program")
        self.put(f"alignas(64) {c_type} {tile.name}[{size}];")
        return tile

    def define(self, type_: Type, expression: str) -> Tile:
        """Define a scalar."""
        tile = Tile(type_, self.name("s"))
        const = "" if type_.is_pointer else "const "
        self.put(f"{const}{name_type(type_.element)} {tile.name} = {expression};")
        return tile

    def at(self, tile: Tile, at: Sequence[str], nest: Nest) -> str:
        """Return C++ for an element, computed in the loop where its indices are known."""
        if tile.literal or not tile.shape:
            return tile.text
        if tile.formula is None:
            return f"{tile.name}[{nest.flatten(at, tile.shape)}]"
        key = id(tile), tuple(at)
        if key not in nest.known:
            expression = tile.formula(at, nest)
            name = nest.known[key] = self.name("e")
            const = "" if tile.type.is_pointer else "const "
            level = nest.find_level(at)
            nest.bodies[level].append(f"{const}{name_type(tile.type.element)} {name} = {expression};")
        return nest.known[key]

    def assign(self, target: Tile, tile: Tile) -> None:
        """Store all elements of a tile, or a scalar, in a variable."""
        if not target.shape:
            self.put(f"{target.name} = {tile.text};")
            return

        def body(at: list[str], nest: Nest) -> None:
            value = self.at(tile, at, nest)
            nest.inner.append(f"{self.at(target, at, nest)} = {value};")

        self.write_nest(target.shape, body)

    def store(self, tile: Tile) -> Tile:
        """Return the tile as an array."""
        if tile.is_array or not tile.shape:
            return tile
        target = self.declare(tile.type)
        self.assign(target, tile)
        target.steps, target.wraps, target.falls = tile.steps, tile.wraps, tile.falls
        return target
