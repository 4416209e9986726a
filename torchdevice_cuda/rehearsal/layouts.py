"""How a copy walks through memory, by the strides of its target and its source."""

from __future__ import annotations

import dataclasses

from .calls import Shape, list_strides

#: Bytes that a GPU reads at a time, threads that read together, and elements that share a cache.
SECTOR, WARP, BLOCK = 32, 32, 512


@dataclasses.dataclass(frozen=True)
class Walk:
    """The way of a copy: its name, and the bytes that it reads of the source's memory, and in whole sectors."""

    name: str
    read: float
    traffic: float


def _list_steps(shape: Shape, sizes: tuple[int, ...]) -> list[int]:
    """Return the strides with which a tensor is read as if it had these sizes."""
    strides = shape.strides or list_strides(shape.sizes, range(len(shape.sizes) - 1, -1, -1))
    missing = len(sizes) - len(shape.sizes)
    own = [0] * missing + [s if size > 1 else 0 for size, s in zip(shape.sizes, strides, strict=True)]
    return [step if size > 1 else 0 for step, size in zip(own, sizes, strict=True)]


def _count_sectors(merged: list[list[int]], item: int, threads: int) -> float:
    """Return the sectors of the source that these threads read, divided by their number."""
    offsets = []
    for thread in range(threads):
        offset = 0
        for size, _, step in merged:
            offset += thread % size * step
            thread //= size
        if thread:  # beyond the last element
            break
        offsets.append(offset)
    return len({offset * item // SECTOR for offset in offsets}) / len(offsets)


def walk(target: Shape, source: Shape) -> Walk:
    """Return how a copy reads, in the order of the target's memory.

    `dense`: both in the same order, without gaps; `expanded`: elements are read several times; `rows`: a warp's threads
    read neighbours; `transposed`: they read a sector each.
    """
    sizes = target.sizes
    into, out_of = _list_steps(target, sizes), _list_steps(source, sizes)
    merged: list[list[int]] = []
    for i in sorted((i for i, size in enumerate(sizes) if size > 1), key=lambda i: (into[i], out_of[i])):
        last = merged[-1] if merged else None
        if last and into[i] == last[1] * last[0] and out_of[i] == last[2] * last[0]:
            last[0] *= sizes[i]
        else:
            merged.append([sizes[i], into[i], out_of[i]])
    bytes_ = float(target.elements * source.item_bytes)
    if any(step == 0 for *_, step in merged):
        return Walk("expanded", float(min(source.bytes, bytes_)), bytes_)
    if not merged or (len(merged) == 1 and merged[0][1:] == [1, 1]):
        return Walk("dense", bytes_, bytes_)
    asked, read = (_count_sectors(merged, source.item_bytes, n) * SECTOR * target.elements for n in (WARP, BLOCK))
    # A warp asks its cache for each sector; a block reads each once.
    return Walk("rows" if asked <= 2 * bytes_ else "transposed", bytes_, max((asked + read) / 2, bytes_))


def is_dense(shape: Shape) -> bool:
    """Return whether a tensor's elements follow each other in its dimensions' order."""
    return not shape.strides or walk(dataclasses.replace(shape, strides=()), shape).name == "dense"
