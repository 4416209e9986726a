"""Moves and conversions."""

from __future__ import annotations

from .rows import Row

_INTEGERS = "u8|u16|u32|u64|s8|s16|s32|s64"
_REALS = "f16|bf16|f32|f64"
_RND = "rnd?:rn|rz|rm|rp|rna|rni|rzi|rmi|rpi"
_FLAGS = "ftz? sat? relu? satfinite?"
_CONVERT = "#convert<{{d}}, {{s}}, {{rnd}}, {{ftz}}, {{sat}}, {{relu}}, {{satfinite}}>({0})"

ROWS = [
    Row("mov", "t:b8|b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64|f16|bf16|f16x2|bf16x2|pred", "x=t a:t", "{a}"),
    Row(
        "cvt",
        f"{_RND} {_FLAGS} d:{_INTEGERS}|{_REALS}|tf32 s:{_INTEGERS}|{_REALS}",
        "x=d a:s",
        _CONVERT.format("{a}"),
    ),
    Row(
        "cvt",
        f"{_RND} {_FLAGS} d:f16x2|bf16x2|e4m3x2|e5m2x2|e2m1x2 s:f32",
        "x=d a:s b:s",
        "#convert_two<{d}, {rnd}, {ftz}, {sat}, {relu}, {satfinite}>({a}, {b})",
    ),
    Row(
        "cvt",
        f"{_RND} {_FLAGS} d:e4m3x2|e5m2x2|f16x2|bf16x2 s:e4m3x2|e5m2x2|e2m1x2|f16x2|bf16x2",
        "x=d a:s",
        "#convert_pair<{d}, {s}, {rnd}, {ftz}, {sat}, {relu}, {satfinite}>({a})",
    ),
    Row("cvt", "pack sat d:u16|s16 s:s32", "x=u32 a:s b:s", "#pack<{d}>({a}, {b}, 0)"),
    Row("cvt", "pack sat d:u8|s8 s:s32 b32", "x=u32 a:s b:s c:u32", "#pack<{d}>({a}, {b}, {c})"),
]
