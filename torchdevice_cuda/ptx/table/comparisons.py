"""Comparisons and selections."""

from __future__ import annotations

from .rows import Row

_TYPES = "b16|b32|b64|u16|u32|u64|s16|s32|s64|f16|bf16|f32|f64"
_COMPARE = "cmp:eq|ne|lt|le|gt|ge|lo|ls|hi|hs|equ|neu|ltu|leu|gtu|geu|num|nan"
_JOIN = "op:and|or|xor"
_RESULT = "#compare<{t}, {ftz}>(#Compare_{cmp}(), {a}, {b})"
_LOW = "#compare_low<{ftz}>(#Compare_{cmp}(), {a}, {b})"
_HIGH = "#compare_high<{ftz}>(#Compare_{cmp}(), {a}, {b})"

ROWS = [
    Row("setp", f"{_COMPARE} ftz? t:{_TYPES}", "p=pred |q?=pred a:t b:t", f"{{p}} = {_RESULT}; {{q}} = !{{p}};"),
    Row(
        "setp",
        f"{_COMPARE} {_JOIN} ftz? t:{_TYPES}",
        "p=pred |q?=pred a:t b:t c:pred",
        f"{{p}} = {_RESULT}; {{q}} = #join_{{op}}(!{{p}}, {{c}}); {{p}} = #join_{{op}}({{p}}, {{c}});",
    ),
    Row(
        "setp",
        f"{_COMPARE} ftz? t:f16x2|bf16x2",
        "p=pred |q=pred a:t b:t",
        f"{{p}} = {_LOW}; {{q}} = {_HIGH};",
    ),
    Row("set", f"{_COMPARE} ftz? u:u32|s32|f32|u16|s16 t:{_TYPES}", "d=u a:t b:t", f"#tell<{{u}}>({_RESULT})"),
    Row(
        "set",
        f"{_COMPARE} {_JOIN} ftz? u:u32|s32|f32|u16|s16 t:{_TYPES}",
        "d=u a:t b:t c:pred",
        f"#tell<{{u}}>(#join_{{op}}({_RESULT}, {{c}}))",
    ),
    Row(
        "set",
        f"{_COMPARE} ftz? u:f16x2|bf16x2 t:f16x2|bf16x2",
        "d=u a:t b:t",
        f"#tell_both<{{u}}>({_LOW}, {_HIGH})",
    ),
    Row("selp", "t:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64", "d=t a:t b:t c:pred", "({c} ? {a} : {b})"),
    Row(
        "slct",
        "ftz? t:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64 u:s32|f32",
        "d=t a:t b:t c:u",
        "({c} >= 0 ? {a} : {b})",
    ),
]
