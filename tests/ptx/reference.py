"""PTX's arithmetic in exact fractions, apart from the C++ that is tested."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple


class Real(NamedTuple):
    """A number: NaN, or a size that may be infinite (None), with a sign."""

    size: Fraction | None
    is_negative: bool = False
    is_nan: bool = False

    @property
    def value(self) -> Fraction:
        assert self.size is not None
        return -self.size if self.is_negative else self.size


NAN = Real(None, False, True)


class Format(NamedTuple):
    """Bits of the exponent and of the fraction; `has_infinity` is False where the last code is NaN alone."""

    exponent: int
    fraction: int
    nan: int
    has_infinity: bool = True

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def end(self) -> int:
        """The first code of what is not finite."""
        if self.has_infinity:
            return ((1 << self.exponent) - 1) << self.fraction
        return self.nan

    def decode(self, bits: int) -> Real:
        is_negative, code = bool(bits >> (self.bits - 1)), bits & ((1 << (self.bits - 1)) - 1)
        if code >= self.end:
            return Real(None, is_negative) if self.has_infinity and code == self.end else NAN
        exponent, fraction = code >> self.fraction, code & ((1 << self.fraction) - 1)
        digits = fraction | (1 << self.fraction if exponent else 0)
        return Real(Fraction(digits) * Fraction(2) ** (max(exponent, 1) - self.bias - self.fraction), is_negative)

    def encode(self, number: Real, mode: str = "rn", is_finite: bool = False) -> int:
        """Round a number: rn, rz, rm, rp, or rna (ties away from zero)."""
        if number.is_nan:
            return self.nan
        sign = int(number.is_negative) << (self.bits - 1)
        if number.size is None:
            return sign | (self.end - 1 if is_finite else self.end)
        if number.size == 0:
            return sign
        exponent = max(_log2(number.size), 1 - self.bias)
        scaled = number.size / Fraction(2) ** (exponent - self.fraction)
        kept, rest = divmod(scaled, 1)
        is_away = {
            "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and kept % 2 == 1),
            "rna": rest >= Fraction(1, 2),
            "rz": False,
            "rm": number.is_negative and rest > 0,
            "rp": not number.is_negative and rest > 0,
        }[mode]
        code = int(kept) + is_away + ((exponent + self.bias - 1) << self.fraction)
        if code >= self.end:
            is_cut = is_finite or mode == "rz" or (mode == "rm") != number.is_negative and mode in ("rm", "rp")
            code = self.end - 1 if is_cut else self.end
        return sign | code

    def flush(self, bits: int) -> int:
        is_small = bits & (((1 << self.exponent) - 1) << self.fraction) == 0
        return bits & (1 << (self.bits - 1)) if is_small else bits


F64 = Format(11, 52, 0x7FF8000000000000)
F32 = Format(8, 23, 0x7FFFFFFF)
F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)
E5M2 = Format(5, 2, 0x7F)
E4M3 = Format(4, 3, 0x7F, has_infinity=False)


def _log2(value: Fraction) -> int:
    """Return the exponent of the highest bit."""
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _sum(a: Real, b: Real, mode: str) -> Real:
    if a.is_nan or b.is_nan:
        return NAN
    if a.size is None or b.size is None:
        if a.size is None and b.size is None and a.is_negative != b.is_negative:
            return NAN
        return a if a.size is None else b
    total = a.value + b.value
    if total == 0:
        is_negative = a.is_negative if a.is_negative == b.is_negative else mode == "rm"
        return Real(Fraction(0), is_negative)
    return Real(abs(total), total < 0)


def _product(a: Real, b: Real) -> Real:
    if a.is_nan or b.is_nan or (a.size is None and b.size == 0) or (b.size is None and a.size == 0):
        return NAN
    is_negative = a.is_negative != b.is_negative
    return Real(None if a.size is None or b.size is None else a.size * b.size, is_negative)


def _quotient(a: Real, b: Real) -> Real:
    if a.is_nan or b.is_nan or (a.size is None and b.size is None) or (a.size == 0 and b.size == 0):
        return NAN
    is_negative = a.is_negative != b.is_negative
    if a.size is None or b.size == 0:
        return Real(None, is_negative)
    return Real(Fraction(0) if b.size is None else a.size / b.size, is_negative)


def _root(a: Real) -> Real:
    if a.is_nan or (a.is_negative and a.size != 0):
        return NAN
    if a.size is None or a.size == 0:
        return a
    # An integer root of many bits; a last one stands for what was cut.
    shift = 4 * 80 + 2 * 1100
    scaled = (a.size * Fraction(2) ** shift).__floor__()
    root = math.isqrt(scaled)
    is_exact = Fraction(root * root, 2**shift) == a.size
    return Real((Fraction(root) + (0 if is_exact else Fraction(1, 2))) / Fraction(2) ** (shift // 2))


def compute(name: str, format_: Format, mode: str, given: list[int], is_flushed: bool, is_saturated: bool) -> int:
    """Return the bits of an instruction's result."""
    of = [format_.decode(format_.flush(bits) if is_flushed else bits) for bits in given]
    if name == "sub":
        of[1] = of[1]._replace(is_negative=not of[1].is_negative)
    if name in ("add", "sub"):
        result = _sum(of[0], of[1], mode)
    elif name == "mul":
        result = _product(of[0], of[1])
    elif name == "fma":
        result = _sum(_product(of[0], of[1]), of[2], mode)
    elif name == "div":
        result = _quotient(of[0], of[1])
    elif name == "rcp":
        result = _quotient(Real(Fraction(1)), of[0])
    else:
        result = _root(of[0])
    bits = format_.encode(result, mode)
    if is_flushed:
        bits = format_.flush(bits)
    if is_saturated:
        made = format_.decode(bits)
        if made.is_nan or made.is_negative or made.size == 0:
            return 0
        if made.size is None or made.size > 1:
            return format_.encode(Real(Fraction(1)))
    return bits
