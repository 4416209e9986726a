"""Arithmetic of real numbers and conversions, compared with exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ptx import reference
from ptx.compiling import Statement, call, compile_statements
from ptx.reference import BF16, E4M3, E5M2, F16, F32, F64, Format, Real

FORMATS = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16}
LETTERS = {8: "b", 16: "h", 32: "r", 64: "l"}
MODES = ("rn", "rz", "rm", "rp")


def draw(format_: Format, count: int, seed: int) -> list[int]:
    """Return bits of numbers: special ones, small ones, neighbours of one, and any."""
    draws = random.Random(seed)
    top = 1 << (format_.bits - 1)
    special = [0, 1, format_.end - 1, format_.end, format_.nan, 1 << format_.fraction, (1 << format_.fraction) - 1]
    one = format_.bias << format_.fraction
    found = []
    for _ in range(count):
        kind = draws.randrange(6)
        if kind == 0:
            code = draws.choice(special)
        elif kind == 1:
            code = one + draws.randrange(-40, 40)
        elif kind == 2:
            code = draws.randrange(0, 3 << format_.fraction)
        elif kind == 3:
            code = one + (draws.randrange(-3, 4) << format_.fraction) + draws.randrange(1 << format_.fraction)
        else:
            code = draws.randrange(top)
        found.append(code | draws.choice((0, top)))
    return found


class Case:
    """An instruction, with what computes the same in fractions."""

    def __init__(
        self, opcode: str, name: str, type_: str, mode: str, count: int, is_flushed: bool, is_sat: bool
    ) -> None:
        self.opcode, self._format = opcode, FORMATS[type_]
        self._call = (name, mode, is_flushed, is_sat)
        self._count = count
        letter = LETTERS[self._format.bits]
        places = ", ".join(f"${i}" for i in range(count + 1))
        self.statement = Statement(f"{opcode} {places};", letter * (count + 1))

    def check(self, library: Any, number: int) -> None:
        columns = [draw(self._format, 150, 10 * number + i) for i in range(self._count)]
        rows = [[0, *given] for given in zip(*columns, strict=True)]
        name, mode, is_flushed, is_sat = self._call
        for row, made in zip(rows, call(library, number, rows), strict=True):
            expected = reference.compute(name, self._format, mode, row[1:], is_flushed, is_sat)
            if self._format is F64 and self._format.decode(expected).is_nan:
                assert self._format.decode(made[0]).is_nan, (self.opcode, row)
            else:
                assert made[0] == expected, (self.opcode, [f"{x:x}" for x in row], f"{made[0]:x}", f"{expected:x}")


def list_cases() -> list[Case]:
    cases = []
    for mode in MODES:
        for name, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("rcp", 1), ("sqrt", 1)):
            for type_ in ("f32", "f64"):
                cases.append(Case(f"{name}.{mode}.{type_}", name, type_, mode, count, False, False))
            cases.append(Case(f"{name}.{mode}.ftz.f32", name, "f32", mode, count, True, False))
        cases.append(Case(f"fma.{mode}.ftz.sat.f32", "fma", "f32", mode, 3, True, True))
    for type_ in ("f16", "bf16"):
        for name, count in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3)):
            cases.append(Case(f"{name}.rn.{type_}", name, type_, "rn", count, False, False))
    cases.append(Case("fma.rn.ftz.sat.f16", "fma", "f16", "rn", 3, True, True))
    cases.append(Case("add.f32", "add", "f32", "rn", 2, False, False))
    cases.append(Case("mul.sat.f32", "mul", "f32", "rn", 2, False, True))
    return cases


def test_arithmetic_is_rounded_as_the_instruction_says(tmp_path: Path) -> None:
    cases = list_cases()
    library = compile_statements(tmp_path, [case.statement for case in cases], ("-O2", "-march=native"))
    for number, case in enumerate(cases):
        case.check(library, number)


@pytest.mark.parametrize("flags", [("-O2", "-ffp-contract=fast", "-march=native"), ("-O2", "-ffast-math")])
def test_rounded_products_are_not_contracted_into_sums(tmp_path: Path, flags: tuple[str, ...]) -> None:
    text = "{ .reg .f32 t; mul.rn.f32 t, $1, $2; add.rn.f32 $0, t, $3; }"
    library = compile_statements(tmp_path, [Statement(text, "ffff")], flags)
    # (1 + 2^-12)^2 - (1 + 2^-11) is 2^-24, and 0 where the product was rounded.
    one, minus = 0x3F800800, 0xBF801000
    assert call(library, 0, [[0, one, one, minus]])[0][0] == 0


# ------------------------------------------------------------- conversions
def round_integral(value: Fraction, mode: str) -> int:
    if mode == "rzi":
        return int(value)
    if mode == "rmi":
        return value.__floor__()
    if mode == "rpi":
        return value.__ceil__()
    return round(value)


INTEGERS = {f"{kind}{bits}": (kind == "s", bits) for kind in "us" for bits in (8, 16, 32, 64)}


def limits(type_: str) -> tuple[int, int]:
    is_signed, bits = INTEGERS[type_]
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)


def to_integer(real: Real, type_: str, source: str, mode: str) -> int:
    least, most = limits(type_)
    bits = INTEGERS[type_][1]
    if real.is_nan:
        return 1 << (bits - 1) if bits == 64 or source == "f64" else 0
    if real.size is None:
        value = least if real.is_negative else most
    else:
        value = min(max(round_integral(real.value, mode), least), most)
    return value & ((1 << bits) - 1)


def test_conversions_of_real_numbers_to_integers(tmp_path: Path) -> None:
    cases = [
        (f"cvt.{mode}.{to}.{of}", to, of, mode)
        for mode in ("rni", "rzi", "rmi", "rpi")
        for to in INTEGERS
        for of in FORMATS
    ]
    statements = [
        Statement(f"{opcode} $0, $1;", LETTERS[INTEGERS[to][1]] + LETTERS[FORMATS[of].bits])
        for opcode, to, of, _ in cases
    ]
    library = compile_statements(tmp_path, statements)
    for number, (opcode, to, of, mode) in enumerate(cases):
        rows = [[0, bits] for bits in draw(FORMATS[of], 60, number)]
        for row, made in zip(rows, call(library, number, rows), strict=True):
            expected = to_integer(FORMATS[of].decode(row[1]), to, of, mode)
            assert made[0] == expected, (opcode, f"{row[1]:x}", f"{made[0]:x}", f"{expected:x}")


def test_conversions_of_integers(tmp_path: Path) -> None:
    cases = [
        *((f"cvt.{mode}.{to}.{of}", to, of, mode) for mode in MODES for to in FORMATS for of in INTEGERS),
        *((f"cvt{mode}.{to}.{of}", to, of, mode) for mode in ("", ".sat") for to in INTEGERS for of in INTEGERS),
    ]
    sizes = {**{name: INTEGERS[name][1] for name in INTEGERS}, **{name: FORMATS[name].bits for name in FORMATS}}
    statements = [
        Statement(f"{opcode} $0, $1;", LETTERS[sizes[to]] + LETTERS[sizes[of]]) for opcode, to, of, _ in cases
    ]
    library = compile_statements(tmp_path, statements)
    draws = random.Random(1)
    for number, (opcode, to, of, mode) in enumerate(cases):
        is_signed, bits = INTEGERS[of]
        given = [
            0,
            1,
            (1 << bits) - 1,
            1 << (bits - 1),
            *(draws.getrandbits(bits) >> draws.randrange(bits) for _ in range(40)),
        ]
        for (_, word), made in zip(
            [(0, x) for x in given], call(library, number, [[0, x] for x in given]), strict=True
        ):
            value = word - (1 << bits) if is_signed and word >> (bits - 1) else word
            if to in FORMATS:
                expected = FORMATS[to].encode(Real(Fraction(abs(value)), value < 0), mode)
            else:
                least, most = limits(to)
                expected = (min(max(value, least), most) if mode else value) & ((1 << sizes[to]) - 1)
            assert made[0] == expected, (opcode, value, f"{made[0]:x}", f"{expected:x}")


def test_conversions_between_formats(tmp_path: Path) -> None:
    narrowing = [
        ("f32", "f64", MODES),
        ("f16", "f32", ("rn", "rz")),
        ("bf16", "f32", ("rn", "rz")),
        ("f16", "f64", MODES),
    ]
    widening = [("f32", "f16"), ("f32", "bf16"), ("f64", "f16"), ("f64", "f32")]
    cases = [(f"cvt.{mode}.{to}.{of}", to, of, mode) for to, of, modes in narrowing for mode in modes]
    cases += [(f"cvt.{to}.{of}", to, of, "rn") for to, of in widening]
    statements = [
        Statement(f"{opcode} $0, $1;", LETTERS[FORMATS[to].bits] + LETTERS[FORMATS[of].bits])
        for opcode, to, of, _ in cases
    ]
    library = compile_statements(tmp_path, statements)
    for number, (opcode, to, of, mode) in enumerate(cases):
        rows = [[0, bits] for bits in draw(FORMATS[of], 200, number)]
        for row, made in zip(rows, call(library, number, rows), strict=True):
            real = FORMATS[of].decode(row[1])
            if real.is_nan:  # test_special.py has its codes
                assert FORMATS[to].decode(made[0]).is_nan, (opcode, f"{row[1]:x}", f"{made[0]:x}")
                continue
            expected = FORMATS[to].encode(real, mode)
            assert made[0] == expected, (opcode, f"{row[1]:x}", f"{made[0]:x}", f"{expected:x}")


def test_conversions_of_pairs(tmp_path: Path) -> None:
    eight = {"e4m3x2": E4M3, "e5m2x2": E5M2}
    statements = [
        *(Statement(f"cvt.rn.satfinite.{to}.f32 $0, $1, $2;", "hrr") for to in eight),
        *(Statement(f"cvt.rn.satfinite.{to}.f16x2 $0, $1;", "hr") for to in eight),
        *(Statement(f"cvt.rn.f16x2.{of} $0, $1;", "rh") for of in eight),
        Statement("cvt.rn.bf16x2.f32 $0, $1, $2;", "rrr"),
        Statement("cvt.rz.relu.f16x2.f32 $0, $1, $2;", "rrr"),
        Statement("cvt.rna.tf32.f32 $0, $1;", "rr"),
        Statement("cvt.rn.satfinite.e2m1x2.f32 $0, $1, $2;", "brr"),
    ]
    library = compile_statements(tmp_path, statements)
    highs, lows = draw(F32, 300, 1), draw(F32, 300, 2)
    pairs = [[0, high, low] for high, low in zip(highs, lows, strict=True)]
    for number, format_ in enumerate(eight.values()):
        for (_, high, low), made in zip(pairs, call(library, number, pairs), strict=True):
            high, low = (format_.encode(F32.decode(bits), "rn", True) for bits in (high, low))
            assert made[0] == high << 8 | low
        halves = [[0, bits | other << 16] for bits, other in zip(draw(F16, 300, 3), draw(F16, 300, 4), strict=True)]
        for (_, both), made in zip(halves, call(library, 2 + number, halves), strict=True):
            high, low = (format_.encode(F16.decode(bits), "rn", True) for bits in (both >> 16, both & 0xFFFF))
            assert made[0] == high << 8 | low
        codes = [[0, code | (255 - code) << 8] for code in range(256)]
        for (_, both), made in zip(codes, call(library, 4 + number, codes), strict=True):
            high, low = (F16.encode(format_.decode(bits)) for bits in (both >> 8, both & 0xFF))
            assert made[0] == high << 16 | low
    for (_, high, low), made in zip(pairs, call(library, 6, pairs), strict=True):
        assert made[0] == BF16.encode(F32.decode(high)) << 16 | BF16.encode(F32.decode(low))
    for (_, high, low), made in zip(pairs, call(library, 7, pairs), strict=True):
        cut = [F16.encode(F32.decode(bits), "rz") for bits in (high, low)]
        high, low = (0 if bits >> 15 else bits for bits in cut)
        assert made[0] == high << 16 | low
    for (_, bits, _), made in zip(pairs, call(library, 8, [row[:2] for row in pairs]), strict=True):
        if not F32.decode(bits).is_nan:
            assert made[0] == Format(8, 10, 0x3FFFF).encode(F32.decode(bits), "rna") << 13
    sizes = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    for (_, _, low), made in zip(pairs, call(library, 9, pairs), strict=True):
        given = F32.decode(low)
        if given.is_nan:
            assert made[0] & 15 == 7
            continue
        size = min(given.size, Fraction(6)) if given.size is not None else Fraction(6)
        code = min(range(8), key=lambda at: (abs(Fraction(sizes[at]) - size), at % 2))
        assert made[0] & 15 == code | (8 if given.is_negative else 0)
