"""Integers, bits, comparisons, moves, carries and memory, compared with Python's integers."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from pathlib import Path

from ptx.compiling import BITS, Statement, call, compile_statements

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def limited(value: int) -> int:
    return min(max(value, -(1 << 31)), (1 << 31) - 1)


def bytes_of(word: int, is_signed: bool) -> list[int]:
    parts = [word >> (8 * i) & 255 for i in range(4)]
    return [signed(part, 8) for part in parts] if is_signed else parts


def permute(a: int, b: int, selectors: int) -> int:
    pool = [*(a >> (8 * i) & 255 for i in range(4)), *(b >> (8 * i) & 255 for i in range(4))]
    result = 0
    for i in range(4):
        selector = selectors >> (4 * i) & 15
        byte = pool[selector & 7]
        result |= ((255 if byte >> 7 else 0) if selector & 8 else byte) << (8 * i)
    return result


def extract(a: int, at: int, count: int, bits: int, is_signed: bool) -> int:
    at, count = at & 255, count & 255
    if count == 0:
        return 0
    top = min(at + count - 1, bits - 1)
    sign = a >> top & 1 if is_signed else 0
    result = 0
    for i in range(bits):
        bit = a >> (at + i) & 1 if i < count and at + i < bits else sign
        result |= bit << i
    return result


def insert(a: int, b: int, at: int, count: int, bits: int) -> int:
    for i in range(count & 255):
        place = (at & 255) + i
        if place < bits:
            b = b & ~(1 << place) | (a >> i & 1) << place
    return b


def find_set(mask: int, base: int, n: int) -> int:
    base &= 31
    if n == 0:
        return base if mask >> base & 1 else M32
    places = range(base, 32) if n > 0 else range(base, -1, -1)
    found = [at for at in places if mask >> at & 1]
    return found[abs(n) - 1] if abs(n) <= len(found) else M32


def funnel(a: int, b: int, by: int) -> int:
    return (b << 32 | a) >> by & M32


def logic(a: int, b: int, c: int, lut: int) -> int:
    return sum(1 << i for i in range(32) if lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1)


def truth(is_true: bool) -> int:
    return int(is_true)


Reference = Callable[..., int]
#: Assembly, the letters of its operands, and the first operand as a function of the others.
CASES: list[tuple[str, str, Reference]] = [
    ("add.u32 $0, $1, $2;", "rrr", lambda a, b: a + b),
    ("sub.s64 $0, $1, $2;", "lll", lambda a, b: a - b),
    ("add.u16 $0, $1, -1;", "hh", lambda a: a - 1),
    ("add.sat.s32 $0, $1, $2;", "rrr", lambda a, b: limited(signed(a) + signed(b))),
    ("sub.sat.s32 $0, $1, $2;", "rrr", lambda a, b: limited(signed(a) - signed(b))),
    ("mul.lo.s32 $0, $1, $2;", "rrr", lambda a, b: a * b),
    ("mul.hi.s32 $0, $1, $2;", "rrr", lambda a, b: signed(a) * signed(b) >> 32),
    ("mul.hi.u64 $0, $1, $2;", "lll", lambda a, b: a * b >> 64),
    ("mul.hi.s64 $0, $1, $2;", "lll", lambda a, b: signed(a, 64) * signed(b, 64) >> 64),
    ("mul.hi.u16 $0, $1, $2;", "hhh", lambda a, b: a * b >> 16),
    ("mul.wide.s32 $0, $1, $2;", "lrr", lambda a, b: signed(a) * signed(b)),
    ("mul.wide.u16 $0, $1, $2;", "rhh", lambda a, b: a * b),
    ("mad.lo.u32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: a * b + c),
    ("mad.hi.u32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: (a * b >> 32) + c),
    ("mad.wide.u32 $0, $1, $2, $3;", "lrrl", lambda a, b, c: a * b + c),
    ("mad.hi.sat.s32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: limited((signed(a) * signed(b) >> 32) + signed(c))),
    ("mul24.hi.u32 $0, $1, $2;", "rrr", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) >> 16),
    ("sad.s32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: c + abs(signed(a) - signed(b))),
    ("div.s32 $0, $1, $2;", "rrr", lambda a, b: int(signed(a) / signed(b)) if b else M32),
    ("rem.u64 $0, $1, $2;", "lll", lambda a, b: a % b if b else a),
    ("abs.s32 $0, $1;", "rr", lambda a: abs(signed(a))),
    ("neg.s16 $0, $1;", "hh", lambda a: -a),
    ("min.s32 $0, $1, $2;", "rrr", lambda a, b: min(signed(a), signed(b))),
    ("max.u64 $0, $1, $2;", "lll", max),
    ("max.relu.s32 $0, $1, $2;", "rrr", lambda a, b: max(signed(a), signed(b), 0)),
    ("min.u16x2 $0, $1, $2;", "rrr", lambda a, b: min(a & 0xFFFF, b & 0xFFFF) | min(a >> 16, b >> 16) << 16),
    ("popc.b64 $0, $1;", "rl", lambda a: a.bit_count()),
    ("clz.b32 $0, $1;", "rr", lambda a: 32 - a.bit_length()),
    ("bfind.u32 $0, $1;", "rr", lambda a: a.bit_length() - 1),
    ("bfind.s64 $0, $1;", "rl", lambda a: (~a & M64 if a >> 63 else a).bit_length() - 1),
    ("bfind.shiftamt.u32 $0, $1;", "rr", lambda a: 32 - a.bit_length() if a else M32),
    ("brev.b32 $0, $1;", "rr", lambda a: int(f"{a:032b}"[::-1], 2)),
    ("fns.b32 $0, $1, $2, 3;", "rrr", lambda a, b: find_set(a, b, 3) if b < 32 else M32),
    ("fns.b32 $0, $1, $2, -2;", "rrr", lambda a, b: find_set(a, b, -2) if b < 32 else M32),
    ("bfe.u32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: extract(a, b, c, 32, False)),
    ("bfe.s32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: extract(a, b, c, 32, True)),
    ("bfe.s64 $0, $1, $2, 20;", "llr", lambda a, b: extract(a, b, 20, 64, True)),
    ("bfi.b32 $0, $1, $2, $3, 9;", "rrrr", lambda a, b, c: insert(a, b, c, 9, 32)),
    ("shl.b32 $0, $1, $2;", "rrr", lambda a, b: a << b if b < 32 else 0),
    ("shr.u64 $0, $1, $2;", "llr", lambda a, b: a >> b),
    ("shr.s16 $0, $1, $2;", "hhr", lambda a, b: signed(a, 16) >> b),
    ("shf.l.clamp.b32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32),
    ("shf.l.wrap.b32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32),
    ("shf.r.clamp.b32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: funnel(a, b, min(c, 32))),
    ("shf.r.wrap.b32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: funnel(a, b, c & 31)),
    ("lop3.b32 $0, $1, $2, $3, 0xCA;", "rrrr", lambda a, b, c: logic(a, b, c, 0xCA)),
    ("lop3.b32 $0, $1, $2, $3, 0x96;", "rrrr", lambda a, b, c: a ^ b ^ c),
    ("prmt.b32 $0, $1, $2, $3;", "rrrr", permute),
    ("prmt.b32.f4e $0, $1, $2, $3;", "rrrr", lambda a, b, c: funnel(a, b, 8 * (c & 3))),
    ("prmt.b32.rc16 $0, $1, $2, $3;", "rrrr", lambda a, b, c: (a >> 16 * (c & 1) & 0xFFFF) * 0x10001),
    ("dp4a.u32.s32 $0, $1, $2, $3;", "rrrr",
     lambda a, b, c: c + sum(x * y for x, y in zip(bytes_of(a, False), bytes_of(b, True), strict=True))),
    ("dp2a.hi.s32.u32 $0, $1, $2, $3;", "rrrr",
     lambda a, b, c: c + signed(a & 0xFFFF, 16) * bytes_of(b, False)[2] + signed(a >> 16, 16) * bytes_of(b, False)[3]),
    ("and.b32 $0, $1, $2; xor.b32 $0, $0, 0x0f; not.b32 $0, $0;", "rrr", lambda a, b: ~((a & b) ^ 15)),
    ("cnot.b16 $0, $1;", "hh", lambda a: int(a == 0)),
    ("bmsk.clamp.b32 $0, $1, $2;", "rrr", lambda a, b: (1 << min(b, 32)) - 1 << a if a < 32 else 0),
    ("szext.clamp.s32 $0, $1, $2;", "rrr", lambda a, b: extract(a, 0, min(b, 32), 32, True)),
    ("cvt.pack.sat.u8.s32.b32 $0, $1, $2, $3;", "rrrr",
     lambda a, b, c: min(max(signed(b), 0), 255) | min(max(signed(a), 0), 255) << 8 | c << 16),
    ("cvt.s32.s8 $0, $1;", "rr", lambda a: signed(a & 255, 8)),
    ("cvt.u64.s16 $0, $1;", "lh", lambda a: signed(a, 16)),
    # Several words: a carry, a borrow, and a product of two words each.
    ("{ .reg .b32 l, h; add.cc.u32 l, $1, $2; addc.u32 h, 0, 0; mov.b64 $0, {l, h}; }", "lrr", lambda a, b: a + b),
    ("{ .reg .b32 l, h; sub.cc.u32 l, $1, $2; subc.u32 h, 0, 0; mov.b64 $0, {l, h}; }", "lrr", lambda a, b: a - b),
    ("{ .reg .b32 l, h; mad.lo.cc.u32 l, $1, $2, $3; madc.hi.u32 h, $1, $2, 0; mov.b64 $0, {l, h}; }", "lrrr",
     lambda a, b, c: a * b + c),
    # Predicates, selections, scopes, vectors and sinks.
    ("{ .reg .pred p, q; setp.lt.s32 p|q, $1, $2; selp.b32 $0, 3, 5, q; @p add.u32 $0, $0, 70; }", "rrr",
     lambda a, b: 75 if signed(a) < signed(b) else 3),
    ("{ .reg .pred p, q; setp.lo.u32 p, $1, $2; setp.ge.and.u32 q, $3, 9, !p; selp.u32 $0, 1, 0, q; }", "rrrr",
     lambda a, b, c: truth(c >= 9 and not a < b)),
    ("set.gt.u32.s32 $0, $1, $2;", "rrr", lambda a, b: M32 if signed(a) > signed(b) else 0),
    ("slct.u32.s32 $0, $1, $2, $3;", "rrrr", lambda a, b, c: b if c >> 31 else a),
    ("{ .reg .b16 %h<4>; mov.b64 {%h0, %h1, %h2, %h3}, $1; mov.b32 $0, {%h3, %h1}; }", "rl",
     lambda a: a >> 48 | (a >> 16 & 0xFFFF) << 16),
    ("{ .reg .b32 t; { .reg .b32 t; mov.b32 t, 1; } mov.b64 {_, t}, $1; mov.u32 $0, t; }", "rl", lambda a: a >> 32),
    ("mov.f32 $0, 0f3F800000; /* one */ // and a comment\n add.f32 $0, $0, 1.5;", "r", lambda: 0x40200000),
    ("mov.b64 $0, 0b101; add.u64 $0, $0, 017; add.u64 $0, $0, 0xAU;", "l", lambda: 5 + 15 + 10),
    ("and.b32 $0, $1, WARP_SZ;", "rr", lambda a: a & 32),
    ("createpolicy.fractional.L2::evict_first.b64 $0, 1.0;", "l", lambda: 0),
]  # fmt: skip


def draw(letter: str, draws: random.Random) -> int:
    bits = BITS[letter]
    special = (0, 1, (1 << bits) - 1, 1 << (bits - 1), 31, 32, 33, 7)
    return draws.choice(special) if draws.randrange(3) == 0 else draws.getrandbits(bits) >> draws.randrange(bits)


def test_instructions_compute_what_python_computes(tmp_path: Path) -> None:
    library = compile_statements(tmp_path, [Statement(text, letters) for text, letters, _ in CASES])
    draws = random.Random(3)
    for number, (text, letters, expected) in enumerate(CASES):
        rows = [[0, *(draw(letter, draws) for letter in letters[1:])] for _ in range(120)]
        mask = (1 << BITS[letters[0]]) - 1
        for row, made in zip(rows, call(library, number, rows), strict=True):
            assert made[0] == expected(*row[1:]) & mask, (text, [f"{x:x}" for x in row[1:]], f"{made[0]:x}")


MEMORY = [
    Statement("ld.global.v4.u16 {$0, $1, $2, $3}, [$4+8];", "hhhhl"),
    Statement("st.volatile.global.v2.b32 [$0], {$1, $2};", "lrr"),
    Statement("ld.global.nc.L1::no_allocate.L2::128B.s8 $0, [$1+-1];", "rl"),
    Statement("atom.global.gpu.relaxed.add.u32 $0, [$1], $2;", "rlr"),
    Statement("red.release.gpu.global.max.s32 [$0], $1;", "lr"),
    Statement("atom.add.noftz.f16x2 $0, [$1], $2;", "rlr"),
    Statement("atom.cas.b64 $0, [$1], $2, $3;", "llll"),
    Statement("atom.inc.u32 $0, [$1], $2;", "rlr"),
    Statement("atom.global.exch.b32 $0, [$1], $2; membar.gl; fence.acq_rel.gpu;", "rlr"),
    Statement("red.global.add.v2.f32 [$0], {$1, $2};", "lrr"),
    Statement("prefetch.global.L2 [$0]; st.global.cs.f64 [$0], $1;", "ll"),
]


def test_loads_stores_and_atomic_operations(tmp_path: Path) -> None:
    library = compile_statements(tmp_path, MEMORY)
    words = (ctypes.c_uint32 * 8)(*(0x11111111 * i for i in range(8)))
    address = ctypes.addressof(words)

    def run(number: int, *operands: int) -> list[int]:
        return call(library, number, [list(operands)])[0]

    assert run(0, 0, 0, 0, 0, address)[:4] == [0x2222, 0x2222, 0x3333, 0x3333]
    run(1, address, 0xABCD, 0xFFFFFFF0)
    assert list(words[:3]) == [0xABCD, 0xFFFFFFF0, 0x22222222]
    assert run(2, 0, address + 8)[0] == 0xFFFFFFFF
    assert run(3, 0, address, 5)[0] == 0xABCD
    assert words[0] == 0xABD2
    words[1] = 0xFFFFFFFB
    run(4, address + 4, 0xFFFFFFFE)
    assert words[1] == 0xFFFFFFFE
    words[2] = 0x3C004000  # 2 and 1
    assert run(5, 0, address + 8, 0x3C003C00)[0] == 0x3C004000
    assert words[2] == 0x40004200  # 3 and 2
    words[4], words[5] = 7, 0
    assert run(6, 0, address + 16, 7, 9)[0] == 7
    assert run(6, 0, address + 16, 7, 11)[0] == 9
    assert words[4] == 9
    words[6] = 2
    assert [run(7, 0, address + 24, 3)[0] for _ in range(4)] == [2, 3, 0, 1]
    assert run(8, 0, address + 24, 77)[0] == 2
    words[0], words[1] = 0x3F800000, 0x00000001
    run(9, address, 0x3F800000, 0x80000000)
    assert list(words[:2]) == [0x40000000, 0]  # small numbers in global memory are zero
    run(10, address, 0x3FF0000000000000)
    assert list(words[:2]) == [0, 0x3FF00000]
