"""Number formats that numpy does not have: how their bits are read, and how a number is rounded to them.

The interpreter keeps bfloat16 and the formats of eight bits as integers, and computes with those integers.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

Array = Any


@dataclasses.dataclass(frozen=True)
class Eight:
    """A format of eight bits: a sign, an exponent and a fraction."""

    fraction: int
    bias: int
    #: codes without a sign from here on are no finite numbers
    finite: int
    infinity: int | None
    nan: int

    @functools.cached_property
    def positive(self) -> Array:
        """The finite numbers that are not negative, by their code."""
        codes = np.arange(self.finite)
        exponent, fraction = codes >> self.fraction, (codes & ((1 << self.fraction) - 1)) / (1 << self.fraction)
        subnormal = exponent == 0
        return np.ldexp(np.where(subnormal, fraction, 1 + fraction), np.where(subnormal, 1, exponent) - self.bias)

    @functools.cached_property
    def numbers(self) -> Array:
        """All of them, by their code."""
        found = np.full(256, np.nan, dtype=np.float32)
        found[: self.finite] = self.positive
        found[128 : 128 + self.finite] = -self.positive
        if self.infinity is not None:
            found[self.infinity], found[128 + self.infinity] = np.inf, -np.inf
        found[self.nan] = np.nan
        return found

    def codes(self, numbers: Array, toward_zero: bool) -> Array:
        """The nearest of each, the even one of two; what is too large becomes the largest, as on the GPU."""
        size = np.abs(numbers.astype(np.float64))
        above = np.clip(np.searchsorted(self.positive, size, side="left"), 1, self.finite - 1)
        below = above - 1
        halves = (self.positive[below] + self.positive[above]) / 2
        up = (size > halves) | ((size == halves) & (above % 2 == 0))
        if toward_zero:
            up = size >= self.positive[above]
        code = np.where(up, above, below) + np.where(np.signbit(numbers), 128, 0)
        if self.nan == 128:  # a format without a negative zero
            code = np.where(code == 128, 0, code)
        return np.where(np.isnan(numbers), self.nan, code).astype(np.uint8)


#: By triton's names.
EIGHTS = {
    "fp8e5": Eight(fraction=2, bias=15, finite=0x7C, infinity=0x7C, nan=0x7F),
    "fp8e4nv": Eight(fraction=3, bias=7, finite=0x7F, infinity=None, nan=0x7F),
    "fp8e4b15": Eight(fraction=3, bias=15, finite=0x80, infinity=None, nan=0x7F),
    "fp8e4b8": Eight(fraction=3, bias=8, finite=0x80, infinity=None, nan=0x80),
    "fp8e5b16": Eight(fraction=2, bias=16, finite=0x80, infinity=None, nan=0x80),
}
BFLOAT16 = "bf16"
HELD = (BFLOAT16, *EIGHTS)


def widened(data: Array, name: str) -> Array:
    """Numbers of a format, as numpy has them; each is one of float32, too."""
    if name == BFLOAT16:
        return (data.astype(np.uint32) << 16).view(np.float32)
    return EIGHTS[name].numbers[data] if name in EIGHTS else data


def narrowed(numbers: Array, name: str, kind: Any, toward_zero: bool = False) -> Array:
    """Numbers, rounded to a format; ``kind`` is what numpy holds it in."""
    if name == BFLOAT16:
        bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
        more = np.uint32(0) if toward_zero else np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        rounded = (bits + more) >> np.uint32(16)
        return np.where(np.isnan(numbers), 0x7FFF, rounded).astype(np.uint16)
    if name in EIGHTS:
        return EIGHTS[name].codes(numbers, toward_zero)
    rounded = numbers.astype(kind)
    if kind == np.float16:
        rounded = np.where(np.isnan(numbers), np.array(0x7FFF, dtype=np.uint16).view(np.float16), rounded)
    if toward_zero and np.dtype(kind).kind == "f":
        return np.where(np.abs(rounded) > np.abs(numbers), np.nextafter(rounded, kind.type(0)), rounded)
    return rounded


def to_integers(numbers: Array, kind: Any) -> Array:
    """Real numbers as integers: cut off, and at most the largest there is, as NVIDIA's GPUs convert.

    They know no numbers of eight bits: those are the last bits of sixteen. What is no number is 0, or of 64 bits the
    smallest.
    """
    if kind.itemsize == 1:
        return to_integers(numbers, np.dtype(f"{kind.kind}2")).astype(kind)
    limits = np.iinfo(kind)
    whole = np.trunc(numbers.astype(np.float64))
    # The largest of 64 bits is no number of float64's: what is too large is set by hand.
    inside = np.clip(np.nan_to_num(whole), float(limits.min), np.nextafter(float(limits.max) + 1, 0)).astype(kind)
    found = np.where(whole >= float(limits.max), limits.max, np.where(whole <= limits.min, limits.min, inside))
    return np.where(np.isnan(whole), limits.min if kind.itemsize == 8 else 0, found).astype(kind)


def tf32(numbers: Array) -> Array:
    """What a tensor core reads of float32: the ten first bits of the fraction."""
    return (np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
