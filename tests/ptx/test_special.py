"""Codes of NaN, and other results that a GPU chooses: those of an H200."""

from __future__ import annotations

from pathlib import Path

from ptx.compiling import Statement, call, compile_statements

#: An instruction, the letters of its operands, and operands with the result of an H200.
RECORDED = [
    ("abs.f32 $0, $1;", "rr", [0xFFD38388], 0x7FFFFFFF),
    ("neg.f32 $0, $1;", "rr", [0x7FC00000], 0x7FFFFFFF),
    ("neg.f16 $0, $1;", "hh", [0xFE00], 0x7FFF),
    ("abs.bf16x2 $0, $1;", "rr", [0x7FC0FF7F], 0x7FFF7F7F),
    ("add.rn.f32 $0, $1, $2;", "rrr", [0x7FC12345, 0], 0x7FFFFFFF),
    ("sub.rn.f64 $0, $1, $2;", "lll", [0xFFF0000000000000] * 2, 0xFFF8000000000000),
    ("sqrt.rz.f64 $0, $1;", "ll", [0xC01B5C5B4434E045], 0xFFF8000000000000),
    ("rsqrt.approx.f64 $0, $1;", "ll", [0xBFFC4F65B763CB17], 0xFFF8000000000000),
    ("rcp.approx.ftz.f64 $0, $1;", "ll", [0x7FF8000000000000], 0x7FFFFFFF00000000),
    ("cvt.rn.f32.f64 $0, $1;", "rl", [0xFFF8000000000000], 0xFFC00000),
    ("cvt.rn.f16.f64 $0, $1;", "hl", [0xFFF8000000000000], 0xFE00),
    ("cvt.rni.f64.f64 $0, $1;", "ll", [0xFFF8000000000000], 0xFFF8000000000000),
    ("cvt.f64.f32 $0, $1;", "lr", [0x7FD38388], 0x7FFA707100000000),
    ("cvt.f64.f16 $0, $1;", "lh", [0x7E4F], 0x7FF93C0000000000),
    ("cvt.f32.f16 $0, $1;", "rh", [0xFE00], 0x7FFFFFFF),
    ("cvt.f32.bf16 $0, $1;", "rh", [0xFFC0], 0xFFC00000),
    ("cvt.rn.tf32.f32 $0, $1;", "rr", [0x7FD38388], 0x7FFFE000),
    ("cvt.rna.tf32.f32 $0, $1;", "rr", [0x7FD38388], 0x7FD38000),
    ("cvt.ftz.f32.f16 $0, $1;", "rh", [0x8069], 0xB6D20000),
    ("cvt.rn.satfinite.relu.e4m3x2.f32 $0, $1, $2;", "hrr", [0x80000000, 0x3F7FFFDC], 0x0038),
    ("cvt.rzi.s32.f64 $0, $1;", "rl", [0x7FF8000000000000], 0x80000000),
    ("cvt.rzi.s32.f32 $0, $1;", "rr", [0x7FC00000], 0),
    ("cvt.rzi.u8.f32 $0, $1;", "rr", [0x43960000], 255),
    ("min.f32 $0, $1, $2;", "rrr", [0x80000000, 0], 0x80000000),
    ("min.NaN.f16 $0, $1, $2;", "hhh", [0x7E00, 0], 0x7FFF),
    ("div.u32 $0, $1, 0;", "rr", [5], 0xFFFFFFFF),
]


def test_results_are_those_of_an_h200(tmp_path: Path) -> None:
    library = compile_statements(tmp_path, [Statement(text, letters) for text, letters, _, _ in RECORDED])
    for number, (text, _, given, expected) in enumerate(RECORDED):
        made = call(library, number, [[0, *given]])[0][0]
        assert made == expected, (text, f"{made:x}")
