"""What operators along dimensions cost: reductions, softmax and normalization."""

from __future__ import annotations

import math

from .calls import Call, Shape
from .work import Work, read_shape


def _dims(call: Call, index: int, shape: Shape) -> tuple[int, ...]:
    dims = call.get(index, ())
    dims = dims if isinstance(dims, tuple) else (dims,)
    rank = max(len(shape.sizes), 1)
    return tuple(d % rank for d in dims) or tuple(range(rank))


def reduction(call: Call) -> Work:
    """Return the cost of reducing some dimensions."""
    shape = read_shape(call, 0)
    dims = _dims(call, 2 if call.name == "linalg_vector_norm" else 1, shape) if len(call.arguments) > 1 else ()
    dims = dims or tuple(range(len(shape.sizes)))
    row = math.prod(shape.sizes[d] for d in dims) if shape.sizes else 1
    results = max(shape.elements // max(row, 1), 1)
    moved = float(shape.bytes + results * (8 if call.name.startswith("arg") else shape.item_bytes))
    if results == 1 or not shape.sizes or len(shape.sizes) - 1 in dims:
        how = "rows" if results > 1 else "all" if row > 32768 else "few"
        return Work(f"{call.name} {how}", moved, moved, shape.elements, row)
    blocks, steps = _divide_columns(row, results)
    return Work(f"{call.name} columns", moved, moved, blocks * steps, steps, is_chain=True)


#: Threads of a block that reduces columns, those of a multiprocessor, and the H200's multiprocessors.
_THREADS, _RESIDENT, _MULTIPROCESSORS = 512, 2048, 132
#: Elements that a thread reduces: at least, before others help, and from which they do; how many it loads at a time.
_LEAST, _MOST, _AT_ONCE = 16, 256, 4


def _floor_power(value: int) -> int:
    return 1 << max(value.bit_length() - 1, 0)


def _divide_columns(row: int, results: int) -> tuple[int, int]:
    """Return the blocks in which PyTorch reduces columns, and how many loads of a thread wait for each other.

    Where several blocks share a column, the last of them adds the others' results.
    """
    vector = next((size for size in (4, 2) if results % size == 0), 1)
    outputs, threads = results // vector, _THREADS // vector
    width = min(_floor_power(outputs), 32)
    height = min(_floor_power(row), threads // width)
    width = min(_floor_power(outputs), threads // height)
    values, columns = row, -(-outputs // width)
    if values >= height * _LEAST or values >= _MOST:
        values = -(-values // height)
    else:
        columns = -(-outputs // (width * height))
        height = 1
    target = _MULTIPROCESSORS * _RESIDENT // threads
    shared = 1
    if height > 1 and values >= _MOST and columns <= target:
        shared = max(min(-(-target // columns), -(-values // _LEAST)), -(-values // _MOST))
    steps = -(-values // shared // _AT_ONCE)
    if shared > 1:
        # Results go through memory, and the last block waits for all.
        steps += -(-shared // height) + columns * shared // 32
    return columns * shared, steps


def rows(call: Call) -> Work:
    """Return the cost of an operator along a dimension that writes what it reads: softmax, normalization."""
    shape = read_shape(call, 0)
    row = shape.sizes[-1] if shape.sizes else 1
    moved = float(sum(t.bytes for t in call.tensors) + shape.bytes)
    key = call.name
    if "softmax" in call.name:
        is_forward = call.name.endswith("_softmax")
        dim, rank = call.get(1 if is_forward else 2, -1), max(len(shape.sizes), 1)
        if dim % rank != rank - 1:
            blocks, steps = _divide_softmax(shape.sizes[dim], math.prod(shape.sizes[dim % rank + 1 :]))
            blocks *= math.prod(shape.sizes[: dim % rank])
            return Work("softmax columns", moved, moved, blocks * steps, steps, is_chain=True)
        # A warp takes a short row, a block's registers a longer one.
        if row > (2048 if is_forward else 1024):
            key = "softmax registers" if is_forward and row <= 9 * 1024 else f"{call.name} long"
    elif call.name.endswith("norm_backward") and any(call.arguments[-1][1:]):
        key = f"{call.name} of weights"
    elif row % 4:  # elements are not loaded by fours
        key = f"{call.name} odd"
    return Work(key, moved, moved, shape.elements, row)


def _divide_softmax(row: int, inner: int) -> tuple[int, int]:
    """Return the blocks of a softmax along another dimension than the last, and the elements of each thread.

    A thread goes down a column, unless there are few columns.
    """
    threads, helpers = min(inner, 1024), 1
    if threads <= 64 and row >= 64:
        while threads * helpers * 2 <= 1024 and helpers * 2 <= row:
            helpers *= 2
    return -(-inner // threads), -(-row // helpers)
