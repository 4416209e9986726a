"""Loads, stores, atomic operations and fences."""

from __future__ import annotations

from .rows import Row

_SPACE = "space?:global|shared|shared::cta|const|local|param"
_ORDER = "order?:weak|volatile|relaxed|acquire|release|acq_rel scope?:cta|cluster|gpu|sys"
_CACHE = (
    "cache*:ca|cg|cs|lu|cv|wb|wt|nc|L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
    "|L2::evict_normal|L2::evict_first|L2::evict_last|L2::cache_hint|L2::64B|L2::128B|L2::256B"
)
_TYPES = "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
_INTEGERS = "b32|b64|u32|u64|s32|s64"
_FLOATS = "f16|f16x2|bf16|bf16x2|f32|f64"
_NARROW = "f16|f16x2|bf16|bf16x2"
_ATOMIC = f"{_ORDER} {_SPACE} cache*:L2::cache_hint"
#: What each atomic operation takes, and what it makes of the old value.
_CHANGES = (
    ("op:add noftz?", f"{_INTEGERS}|{_FLOATS}"),
    ("op:min|max noftz?", f"{_INTEGERS}|{_NARROW}"),
    ("op:and|or|xor", "b32|b64"),
    ("op:exch", "b32|b64"),
    ("op:inc|dec", "u32"),
)

ROWS = [
    *(
        Row(
            name,
            f"{_ORDER} {_SPACE} {_CACHE} vec?:v2|v4|v8 t:{_TYPES}",
            "d=t*n @a:t*n e?:u64",
            "#load<{t}, {n}, {is_ordered}>({a}, {d});",
        )
        for name in ("ld", "ldu")
    ),
    Row(
        "st",
        f"{_ORDER} {_SPACE} {_CACHE} vec?:v2|v4|v8 t:{_TYPES}",
        "@a:t*n b:t*n e?:u64",
        "#store<{t}, {n}, {is_ordered}>({a}, {b});",
    ),
    *(
        row
        for pattern, types in _CHANGES
        for row in (
            Row("atom", f"{_ATOMIC} {pattern} t:{types}", "d=t @a:t b:t", "#change_{op}<{t}, {is_global}>({a}, {b})"),
            Row("red", f"{_ATOMIC} {pattern} t:{types}", "@a:t b:t", "#change_{op}<{t}, {is_global}>({a}, {b});"),
        )
    ),
    Row("atom", f"{_ATOMIC} cas t:b16|b32|b64", "d=t @a:t b:t c:t", "#change_cas<{t}>({a}, {b}, {c})"),
    Row(
        "red",
        f"{_ATOMIC} op:add|min|max noftz? vec:v2|v4|v8 t:f32|{_NARROW}",
        "@a:t*n b:t*n e?:u64",
        "for (int i = 0; i < {n}; i++) #change_{op}<{t}, {is_global}>({a} + i, {b}[i]);",
    ),
    Row("cvta", "to? global t:u32|u64", "d=t a:t", "{a}"),
    Row("membar", "scope:cta|gl|sys", "", "#fence();"),
    Row("fence", "order?:sc|acq_rel|acquire|release scope:cta|cluster|gpu|sys", "", "#fence();"),
    Row("fence", "proxy kind:alias|async space?:global|shared::cta|shared::cluster", "", "#fence();"),
    Row("prefetch", f"{_SPACE} level:L1|L2|L2::evict_last|L2::evict_normal", "@a:b8", "(void)({a});"),
    Row("prefetchu", "level:L1", "@a:b8", "(void)({a});"),
    Row("discard", "space?:global level:L2", "@a:b8 b:u32", "(void)({a});"),
    Row("applypriority", "space?:global level:L2::evict_normal", "@a:b8 b:u32", "(void)({a});"),
    Row(
        "createpolicy",
        "kind:fractional cache*:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged b64",
        "d=u64 a?:f32",
        "0",
    ),
    Row("nanosleep", "u32", "a:u32", "(void)({a});"),
    Row("griddepcontrol", "kind:launch_dependents|wait", "", "#fence();"),
    Row("brkpt", "", "", ";"),
]
