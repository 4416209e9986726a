"""Video instructions, compared with the pseudocode of the PTX ISA in Python's integers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from ptx.compiling import Statement, call, compile_statements, write_function
from torchdevice_cuda.ptx.parser import Refused

M32 = (1 << 32) - 1
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "absdiff": lambda a, b: abs(a - b),
    "min": min,
    "max": max,
    "avrg": lambda a, b: (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1,
}
COMPARISONS: dict[str, Callable[[int, int], int]] = {
    "eq": lambda a, b: int(a == b),
    "ne": lambda a, b: int(a != b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
    "gt": lambda a, b: int(a > b),
    "ge": lambda a, b: int(a >= b),
}
PARTS = {"": (0, 32), **{f".b{i}": (8 * i, 8) for i in range(4)}, ".h0": (0, 16), ".h1": (16, 16)}
TYPES = ("u32", "s32")


def read(value: int, type_: str, bits: int = 32, at: int = 0) -> int:
    value = value >> at & ((1 << bits) - 1)
    return value - (1 << bits) if type_ == "s32" and value >> (bits - 1) else value


def clamp(value: int, type_: str, bits: int) -> int:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if type_ == "s32" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def read_part(value: int, type_: str, part: str) -> int:
    return read(value, type_, PARTS[part][1], PARTS[part][0])


def finish(value: int, type_: str, sat: bool, second: str, into: str, c: int) -> int:
    """Saturate, and combine with the third operand or merge into it."""
    at, bits = PARTS[into]
    value = clamp(value, type_, bits) if sat else read(value, type_)
    if second:
        return OPERATIONS[second](value, read(c, type_)) & M32
    mask = ((1 << bits) - 1) << at
    return (value << at & mask) | (c & ~mask & M32) if into else value & M32


def draw(draws: random.Random) -> int:
    special = (0, 1, M32, 1 << 31, (1 << 31) - 1, 0x80, 0x7F, 0x8000, 31, 32, 33, 0x80FF7F01)
    return draws.choice(special) if draws.randrange(2) else draws.getrandbits(32)


Case = tuple[str, Callable[[int, int, int], int]]


def list_scalar(draws: random.Random) -> list[Case]:
    cases: list[Case] = []

    def add(name: str, words: str, t: str, u: str, v: str, function: Callable[[int, int], int], can_sat: bool) -> None:
        for form in ("", "add", "min", "max", "merge"):
            of = draws.choice(list(PARTS)), draws.choice(list(PARTS))
            into = draws.choice(list(PARTS)[1:]) if form == "merge" else ""
            second = form if form in ("add", "min", "max") else ""
            sat = can_sat and draws.randrange(2) == 1
            text = f"{name}.{words}{'.sat' * sat}{'.' * bool(second)}{second} $0{into}, $1{of[0]}, $2{of[1]}"

            def expected(
                a: int,
                b: int,
                c: int,
                of: tuple[str, str] = of,
                rest: tuple[bool, str, str] = (sat, second, into),
            ) -> int:
                return finish(function(read_part(a, u, of[0]), read_part(b, v, of[1])), t, *rest, c)

            cases.append((f"{text}{', $3' if form else ''};", expected))

    for name, t, u, v in itertools.product(("add", "sub", "absdiff", "min", "max"), TYPES, TYPES, TYPES):
        add(f"v{name}", f"{t}.{u}.{v}", t, u, v, OPERATIONS[name], True)
    for t, u in itertools.product(TYPES, TYPES):
        add("vshl", f"{t}.{u}.u32.clamp", t, u, "u32", lambda a, b: a << min(b, 32), True)
        add("vshl", f"{t}.{u}.u32.wrap", t, u, "u32", lambda a, b: a << (b & 31), True)
        add("vshr", f"{t}.{u}.u32.clamp", t, u, "u32", lambda a, b: a >> min(b, 32), True)
        add("vshr", f"{t}.{u}.u32.wrap", t, u, "u32", lambda a, b: a >> (b & 31), True)
    for (name, compare), u, v in itertools.product(COMPARISONS.items(), TYPES, TYPES):
        add("vset", f"{u}.{v}.{name}", "u32", u, v, compare, False)
    return cases


def list_products(draws: random.Random) -> list[Case]:
    cases: list[Case] = []
    for t, u, v, scale, one, sat in itertools.product(TYPES, TYPES, TYPES, (0, 7, 15), (0, 1), (0, 1)):
        pa, pb = draws.choice(list(PARTS)), draws.choice(list(PARTS))
        kind = "s32" if "s32" in (u, v) else "u32"

        def expected(
            a: int,
            b: int,
            c: int,
            u: str = u,
            v: str = v,
            at: tuple[str, str] = (pa, pb),
            rest: tuple[str, int, int, int] = (kind, scale, one, sat),
        ) -> int:
            kind, scale, one, sat = rest
            value = (read_part(a, u, at[0]) * read_part(b, v, at[1]) + read(c, kind) + one) >> scale
            return (clamp(value, kind, 32) if sat else value) & M32

        words = f"{t}.{u}.{v}{'.po' * one}{'.sat' * sat}{f'.shr{scale}' if scale else ''}"
        cases.append((f"vmad.{words} $0, $1{pa}, $2{pb}, $3;", expected))
    return cases


def list_lanes(draws: random.Random) -> list[Case]:
    cases: list[Case] = []
    named = {**{name: (f"v{name}", "") for name in OPERATIONS}, **{name: ("vset", name) for name in COMPARISONS}}
    for (name, (base, word)), count, u, v, form in itertools.product(
        named.items(), (2, 4), TYPES, TYPES, ("merge", "sat", "add")
    ):
        t = "u32" if word else draws.choice(TYPES)
        if form == "sat" and word:
            continue
        bits, letter = 32 // count, "h" if count == 2 else "b"
        lanes = [list(range(count)), list(range(count, 2 * count))]
        texts = ["", ""]
        for k in range(2):
            if draws.randrange(2):
                lanes[k] = [draws.randrange(2 * count) for _ in range(count)]
                texts[k] = f".{letter}{''.join(map(str, reversed(lanes[k])))}"
        chosen = [i for i in range(count) if draws.randrange(2)] or [0]
        mask = f".{letter}{''.join(map(str, reversed(chosen)))}"
        words = ".".join([base + str(count), *([] if word else [t]), u, v, *filter(None, [word])])
        words += {"merge": "", "sat": ".sat", "add": ".add"}[form]
        function = {**OPERATIONS, **COMPARISONS}[name]

        def expected(
            a: int,
            b: int,
            c: int,
            function: Callable[[int, int], int] = function,
            rest: tuple[str, str, str, str, list[list[int]], list[int], int] = (t, u, v, form, lanes, chosen, bits),
        ) -> int:
            t, u, v, form, lanes, chosen, bits = rest
            pool = a | b << 32
            result = c
            for i in chosen:
                value = function(read(pool, u, bits, lanes[0][i] * bits), read(pool, v, bits, lanes[1][i] * bits))
                value = clamp(value, t, bits) if form == "sat" else value
                if form == "add":
                    result += value
                else:
                    part = ((1 << bits) - 1) << i * bits
                    result = (result & ~part) | (value << i * bits & part)
            return result & M32

        cases.append((f"{words} $0{mask}, $1{texts[0]}, $2{texts[1]}, $3;", expected))
    return cases


@pytest.mark.parametrize("make", [list_scalar, list_products, list_lanes])
def test_video_instructions(make: Callable[[random.Random], list[Case]], tmp_path: Path) -> None:
    draws = random.Random(7)
    cases = make(draws)
    library = compile_statements(tmp_path, [Statement(text, "rrrr") for text, _ in cases])
    for number, (text, expected) in enumerate(cases):
        rows = [[0, draw(draws), draw(draws), draw(draws)] for _ in range(60)]
        for row, made in zip(rows, call(library, number, rows), strict=True):
            assert made[0] == expected(*row[1:]), (text, [f"{x:x}" for x in row[1:]], f"{made[0]:x}")


def test_registers_that_are_declared_have_parts(tmp_path: Path) -> None:
    text = "{ .reg .b32 t; mov.b32 t, $1; vadd.u32.u32.u32 $0, t.h1, t.b0; }"
    library = compile_statements(tmp_path, [Statement(text, "rr")])
    assert call(library, 0, [[0, 0x12345678]])[0][0] == 0x1234 + 0x78


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vadd.s32.s32.s32 $0, $1.h2, $2;", "3 operands with the parts .h2, of the PTX instruction vadd.s32.s32.s32"),
        ("vadd.s32.s32.s32 $0.h1, $1, $2;", "3 operands with the parts .h1"),
        ("vadd.s32.s32.s32 $0, $1, $2, $3;", "4 operands"),
        ("vadd2.s32.s32.s32 $0.h0, $1.b0, $2, $3;", "4 operands with the parts .h0, .b0"),
        ("mov.b64 $3, {$0.h0, $1};", "the part .h0 of a register in a vector or an address"),
        ("vmad.s32.s32.s32 $0, -$1, $2, $3;", "a sign in front of something that is no number"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(text: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        write_function(0, Statement(text, "rrrr"))
    assert words in str(refused.value)
