"""What sorts, selections and scans cost: by the algorithms that PyTorch chooses for their sizes."""

from __future__ import annotations

from collections.abc import Callable

from .calls import Call, Shape
from .work import Work, read_shape

#: Bytes of an index.
_INDEX = 8
#: How many elements a block of threads sorts, whatever its row has, and how many of them a thread; longer rows are
#: sorted by passes over memory.
_CAPACITIES = ((32, 2), (128, 4), (1024, 32), (2048, 32), (4096, 32))
#: Rows from this length are sorted one after the other, fewer rows than these as one, with the row's number as a digit.
_LONGEST, _FEWEST = 1_000_000, 128
#: Threads of a block that scans rows.
_THREADS = 512


def _count_steps(row: int, item: int) -> tuple[int, int]:
    """Return the steps of a block that sorts a row of this length, and of one of its threads.

    A pass takes four bits; preparing and storing takes three passes' time, comparing 32 elements seven's.
    """
    capacity, each = next((sizes for sizes in _CAPACITIES if row <= sizes[0]), _CAPACITIES[-1])
    passes = 7 if capacity == _CAPACITIES[0][0] else 2 * item + 3
    return capacity * passes, each * passes


def _sort(shape: Shape, row: int, _: Call) -> Work:
    item, elements = shape.item_bytes, shape.elements
    count = elements // max(row, 1)
    if row <= _CAPACITIES[-1][0]:
        steps, each = _count_steps(row, item)
        # The values are copied twice, the indices written once.
        moved = float(elements * (4 * item + _INDEX))
        return Work("sort short rows", moved, moved, count * steps, each, blocks=count, is_chain=True)
    # A pass takes a byte of each key, and moves keys and indices.
    if count == 1 or row >= _LONGEST:
        return _pass_over(f"sort{item}", row, item, item, count)
    if count < _FEWEST:
        return _pass_over(f"sort{item}", elements, item, item + 1)
    moved = 2.0 * elements * (item + _INDEX)
    return Work("sort rows", item * moved, moved, elements * item, row * item, is_chain=True)


def _pass_over(key: str, elements: int, item: int, passes: int, repeats: int = 1) -> Work:
    once = 2.0 * elements * (item + _INDEX)
    return Work(key, passes * once, once, elements * passes, repeats=repeats)


def _select(shape: Shape, row: int, call: Call) -> Work:
    """Return the cost of the largest elements of rows: by one block for a row, or by several."""
    item, count, chosen = shape.item_bytes, shape.elements // max(row, 1), call.get(1, 1)
    sorting = _count_steps(chosen, item)[0] if chosen > 1 and call.get(4, True) else 0
    if _has_blocks(count, row):
        # A pass over the row takes a byte, and reads twice.
        elements = float(count * (row * (item + 2) + 1.5 * sorting))
        # For each digit the blocks of a row are added up one after the other.
        each = min(max(shape.elements // _RESIDENT, 4), 64)
        steps = -(-row // (each * 256)) * item
        return Work(
            f"topk blocks{item}", (item + 1.0) * shape.bytes, shape.bytes, elements, steps, blocks=1, is_chain=True
        )
    # It takes two bits at a time, as often for each type: as long as the passes of a sort of four bytes.
    each = row * 11 + sorting
    return Work("topk", shape.bytes, shape.bytes, count * each, each, is_chain=True)


#: Threads that an H200 has at a time.
_RESIDENT = 132 * 2048
#: Up to how many rows PyTorch gives several blocks to rows of at least this length.
_SEVERAL = ((20, 20000), (40, 10000), (80, 8000), (199, 5000), (799, 3000), (4000, 800))


def _has_blocks(count: int, row: int) -> bool:
    return row >= next((least for most, least in _SEVERAL if count <= most), 400)


def _scan(shape: Shape, row: int, call: Call) -> Work:
    item, elements = shape.item_bytes, shape.elements
    moved = 2.0 * shape.bytes
    if row == elements:
        return Work(f"scan{item}", moved, moved, elements)
    count = elements // max(row, 1)
    if not _is_last(call, 1, shape):
        # Each thread goes down a column.
        return Work("scan columns", moved, moved, -(-count // 32) * row, row, is_chain=True)
    # PyTorch divides a block's threads over rows by their lengths; the exponent is unsigned and wraps below zero.
    exponent = 9 + (row - 1).bit_length() - (count - 1).bit_length()
    levels = 9 if exponent < 0 else min(max(exponent // 2, 4), 9)
    blocks, steps = -(-count * (1 << levels) // _THREADS), -(-row // (2 << levels))
    # A step loads and stores two elements of each thread, and sums them in a tree.
    each = steps * 2 * _THREADS * (levels + 8) // 12
    return Work("scan rows", moved, moved, blocks * each, each, is_chain=True)


def _choose(shape: Shape, row: int, call: Call) -> Work:
    if row == shape.elements:
        return _pass_once(shape, row, call)
    return Work(f"{call.name} rows", shape.bytes, shape.bytes, shape.elements, row, is_chain=True)


def _pass_once(shape: Shape, row: int, call: Call) -> Work:
    return Work(f"{call.name}{shape.item_bytes}", shape.bytes, shape.bytes * 4, shape.elements)


_ALGORITHMS: dict[str, Callable[[Shape, int, Call], Work]] = {
    "sort": _sort,
    "argsort": _sort,
    "topk": _select,
    "cumsum": _scan,
    "cumprod": _scan,
    "median": _choose,
    "kthvalue": _choose,
}


def _dim(call: Call, at: int) -> int:
    return next((value for value in call.arguments[at:] if type(value) is int), -1)


def _is_last(call: Call, at: int, shape: Shape) -> bool:
    return not shape.sizes or _dim(call, at) % len(shape.sizes) == len(shape.sizes) - 1


def sorts(call: Call) -> Work:
    """Return the cost of a sort, a scan or a selection along a dimension, or of everything."""
    shape = read_shape(call, 0)
    row = shape.sizes[_dim(call, 2 if call.name in ("topk", "kthvalue") else 1)] if shape.sizes else 1
    return _ALGORITHMS.get(call.name, _pass_once)(shape, row, call)
