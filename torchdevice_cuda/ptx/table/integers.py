"""Arithmetic of integers, bits and logic."""

from __future__ import annotations

from .rows import Row

_ALL = "u16|u32|u64|s16|s32|s64"
_PAIRS = "u16x2|s16x2"
_WORDS = "u32|s32|u64|s64"
_BITS = "b16|b32|b64"
_TWO, _ONE, _THREE = "d=t a:t b:t", "d=t a:t", "d=t a:t b:t c:t"

ROWS = [
    *(Row(name, f"t:{_ALL}|{_PAIRS}", _TWO, f"#{name}_integers<{{t}}>({{a}}, {{b}})") for name in ("add", "sub")),
    *(Row(name, "sat t:s32", _TWO, f"#{name}_saturated({{a}}, {{b}})") for name in ("add", "sub")),
    *(Row(name, f"cc t:{_WORDS}", _TWO, f"#{name}_carry<{{t}}>({{a}}, {{b}}, false, cc)") for name in ("add", "sub")),
    *(
        Row(
            f"{name}c",
            f"cc? t:{_WORDS}",
            _TWO,
            f"#{name}_carry<{{t}}>({{a}}, {{b}}, cc, #choose_carry<{{cc}}>(cc, unused))",
        )
        for name in ("add", "sub")
    ),
    Row("mul", f"op:lo|hi t:{_ALL}", _TWO, "#multiply_{op}<{t}>({a}, {b})"),
    Row("mul", "wide t:u16|s16|u32|s32", "d=wide(t) a:t b:t", "#multiply_wide<{t}, {wide}>({a}, {b})"),
    Row("mad", f"op:lo|hi t:{_ALL}", _THREE, "#add_integers<{t}>(#multiply_{op}<{t}>({a}, {b}), {c})"),
    Row("mad", "hi sat t:s32", _THREE, "#add_saturated(#multiply_hi<{t}>({a}, {b}), {c})"),
    Row(
        "mad",
        "wide t:u16|s16|u32|s32",
        "d=wide(t) a:t b:t c:wide(t)",
        "#add_integers<{wide}>(#multiply_wide<{t}, {wide}>({a}, {b}), {c})",
    ),
    Row(
        "mad",
        f"op:lo|hi cc t:{_WORDS}",
        _THREE,
        "#add_carry<{t}>(#multiply_{op}<{t}>({a}, {b}), {c}, false, cc)",
    ),
    Row(
        "madc",
        f"op:lo|hi cc? t:{_WORDS}",
        _THREE,
        "#add_carry<{t}>(#multiply_{op}<{t}>({a}, {b}), {c}, cc, #choose_carry<{cc}>(cc, unused))",
    ),
    Row("mul24", "op:lo|hi t:u32|s32", _TWO, "#multiply24_{op}<{t}>({a}, {b})"),
    Row("mad24", "op:lo|hi t:u32|s32", _THREE, "#add_integers<{t}>(#multiply24_{op}<{t}>({a}, {b}), {c})"),
    Row("sad", f"t:{_ALL}", "d=t a:t b:t c:t", "#sum_difference<{t}>({a}, {b}, {c})"),
    Row("div", f"t:{_ALL}", _TWO, "#divide<{t}>({a}, {b})"),
    Row("rem", f"t:{_ALL}", _TWO, "#remainder<{t}>({a}, {b})"),
    Row("abs", "t:s16|s32|s64", _ONE, "#abs_integer<{t}>({a})"),
    Row("neg", "t:s16|s32|s64", _ONE, "#sub_integers<{t}>(0, {a})"),
    *(
        Row(name, f"relu? t:{_ALL}|{_PAIRS}", _TWO, f"#{name}_integers<{{t}}, {{relu}}>({{a}}, {{b}})")
        for name in ("min", "max")
    ),
    Row("popc", "t:b32|b64", "d=u32 a:t", "#popc({a})"),
    Row("clz", "t:b32|b64", "d=u32 a:t", "#clz({a})"),
    Row("bfind", f"shiftamt? t:{_WORDS}", "d=u32 a:t", "#bfind<{t}, {shiftamt}>({a})"),
    Row("fns", "t:b32", "d=u32 a:u32 b:u32 c:s32", "#fns({a}, {b}, {c})"),
    Row("brev", "t:b32|b64", _ONE, "#brev<{t}>({a})"),
    Row("bfe", f"t:{_WORDS}", "d=t a:t b:u32 c:u32", "#bfe<{t}>({a}, {b}, {c})"),
    Row("bfi", "t:b32|b64", "d=t a:t b:t c:u32 e:u32", "#bfi<{t}>({a}, {b}, {c}, {e})"),
    Row("bmsk", "mode:clamp|wrap b32", "d=u32 a:u32 b:u32", "#bmsk_{mode}({a}, {b})"),
    Row("szext", "mode:clamp|wrap t:u32|s32", "d=t a:t b:u32", "#szext<{t}>({a}, #limit_{mode}({b}))"),
    Row("dp4a", "t:u32|s32 u:u32|s32", "d=s32 a:u32 b:u32 c:s32", "#dp4a<{t}, {u}>({a}, {b}, {c})"),
    Row("dp2a", "half:lo|hi t:u32|s32 u:u32|s32", "d=s32 a:u32 b:u32 c:s32", "#dp2a_{half}<{t}, {u}>({a}, {b}, {c})"),
    *(
        Row(name, f"t:pred|{_BITS}", _TWO, f"({{t}})({{a}} {mark} {{b}})")
        for name, mark in (("and", "&"), ("or", "|"), ("xor", "^"))
    ),
    Row("not", f"t:{_BITS}", _ONE, "({t})~{a}"),
    Row("not", "t:pred", _ONE, "!{a}"),
    Row("cnot", f"t:{_BITS}", _ONE, "({t})({a} == 0)"),
    Row("lop3", "b32", "d=u32 a:u32 b:u32 c:u32 e:u32", "#lop3({a}, {b}, {c}, {e})"),
    Row(
        "lop3",
        "op:or|and b32",
        "d=u32 |p=pred a:u32 b:u32 c:u32 e:u32 q:pred",
        "{d} = #lop3({a}, {b}, {c}, {e}); {p} = #join_{op}({d} != 0, {q});",
    ),
    Row("shl", f"t:{_BITS}", "d=t a:t b:u32", "#shl<{t}>({a}, {b})"),
    Row("shr", f"t:{_BITS}|{_ALL}", "d=t a:t b:u32", "#shr<{t}>({a}, {b})"),
    Row("shf", "to:l|r mode:clamp|wrap b32", "d=u32 a:u32 b:u32 c:u32", "#shf_{to}({a}, {b}, #limit_{mode}({c}))"),
    Row("prmt", "b32 mode?:f4e|b4e|rc8|ecl|ecr|rc16", "d=u32 a:u32 b:u32 c:u32", "#prmt{mode_suffix}({a}, {b}, {c})"),
]
