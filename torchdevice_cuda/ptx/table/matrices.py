"""Instructions of tensor cores. Only CUDA C++ has them."""

from __future__ import annotations

from .rows import Row

#: Of ``mma``: shape, type of the operands, type of the sums, and how many registers a, b and c have.
_PRODUCTS = (
    *((shape, type_, sums, a, b, 2 if sums == "f16" else 4)
      for shape, type_, a, b in (
          ("m16n8k8", "f16", 2, 1), ("m16n8k16", "f16", 4, 2),
          ("m16n8k16", "e4m3", 2, 1), ("m16n8k16", "e5m2", 2, 1),
          ("m16n8k32", "e4m3", 4, 2), ("m16n8k32", "e5m2", 4, 2),
      ) for sums in ("f16", "f32")),
    ("m16n8k8", "bf16", "f32", 2, 1, 4), ("m16n8k16", "bf16", "f32", 4, 2, 4),
    ("m16n8k4", "tf32", "f32", 2, 1, 4), ("m16n8k8", "tf32", "f32", 4, 2, 4),
    ("m8n8k4", "f64", "f64", 1, 1, 2),
    ("m16n8k4", "f64", "f64", 2, 1, 4), ("m16n8k8", "f64", "f64", 4, 2, 4), ("m16n8k16", "f64", "f64", 8, 4, 4),
)  # fmt: skip
#: Of integers, which may be signed or not, each operand for itself.
_INTEGERS = (("m8n8k16", 1, 1, 2), ("m16n8k16", 2, 1, 4), ("m16n8k32", 4, 2, 4))
_EIGHT_BITS = {"e4m3": "e4m3|e5m2", "e5m2": "e4m3|e5m2"}
#: Of ``wmma``: shape, type, and how many registers a, b and the sums have.
_TILES = {
    "f16": (("m16n16k16", 8, 8), ("m32n8k16", 8, 8), ("m8n32k16", 8, 8)),
    "bf16": (("m16n16k16", 4, 4), ("m32n8k16", 8, 2), ("m8n32k16", 2, 8)),
    "tf32": (("m16n16k8", 4, 4),),
    "f64": (("m8n8k4", 1, 1),),
    "u8|s8": (("m16n16k16", 2, 2), ("m32n8k16", 4, 1), ("m8n32k16", 1, 4)),
}
#: The types of sums for each, with their registers.
_SUMS = {
    "f16": (("f16", 4), ("f32", 8)), "bf16": (("f32", 8),), "tf32": (("f32", 8),), "f64": (("f64", 2),),
    "u8|s8": (("s32", 8),),
}  # fmt: skip
_LAYOUT = "layout:row|col"
_SPACE = "space?:global|shared|shared::cta"


def _warp(base: str, pattern: str, operands: str, code: str) -> Row:
    return Row(base, pattern, operands, code.replace("$", "::host_cuda::ptx_"), needs_thread=True)


def _register(type_: str) -> str:
    """Return the type of the registers that hold elements of a type."""
    return type_ if type_ in ("f32", "f64", "s32") else "u32"


def _mma(shape: str, types: tuple[str, str, str], counts: tuple[int, int, int], more: str = "") -> Row:
    a, b, sums = types
    of, to = _register(a), _register(sums)
    return _warp(
        "mma",
        f"sync aligned? {shape} row col {more} t:{sums} u:{a} v:{b} w:{sums}",
        f"d={to}*{counts[2]} a:{of}*{counts[0]} b:{of}*{counts[1]} c:{to}*{counts[2]}",
        f"$mma_sync<{', '.join(_sizes(shape))}, {{t}}, {{u}}, {{v}}, {'{satfinite}' if more else 'false'}>"
        "({d}, {a}, {b}, {c});",
    )


def _sizes(shape: str) -> list[str]:
    rows, _, rest = shape[1:].partition("n")
    columns, _, depth = rest.partition("k")
    return [rows, columns, depth]


def _wmma(shape: str, type_: str, a: int, b: int) -> list[Row]:
    size, of = ", ".join(_sizes(shape)), _register(type_)
    rows = [
        _warp(
            "wmma",
            f"load {which} sync aligned? {_LAYOUT} {shape} {_SPACE} t:{type_}",
            f"d={of}*{count} @p:{of} s?:u32",
            f"$wmma_load_sync<'{which}', {size}, {{t}}, ${{layout}}>({{d}}, {{p}}, {{s_or_none}});",
        )
        for which, count in (("a", a), ("b", b))
    ]
    for sums, c in _SUMS[type_]:
        to = _register(sums)
        rows += [
            _warp(
                "wmma",
                f"load c sync aligned? {_LAYOUT} {shape} {_SPACE} t:{sums}",
                f"d={to}*{c} @p:{to} s?:u32",
                f"$wmma_load_sync<'c', {size}, {{t}}, ${{layout}}>({{d}}, {{p}}, {{s_or_none}});",
            ),
            _warp(
                "wmma",
                f"store d sync aligned? {_LAYOUT} {shape} {_SPACE} t:{sums}",
                f"@p:{to} a:{to}*{c} s?:u32",
                f"$wmma_store_sync<{size}, {{t}}, ${{layout}}>({{p}}, {{a}}, {{s_or_none}});",
            ),
        ]
        for start, start_count in _SUMS[type_]:
            # ``wmma.mma`` of half precision names only the types of the sums.
            named = f"t:{sums} w:{start}" if type_ == "f16" else f"t:{sums} u:{type_} v:{type_} w:{start}"
            one, two = ("#f16", "#f16") if type_ == "f16" else ("{u}", "{v}")
            rows.append(
                _warp(
                    "wmma",
                    f"mma sync aligned? alayout*:row|col rnd?:rn satfinite? {shape} {named}",
                    f"d={to}*{c} a:{of}*{a} b:{of}*{b} c:{_register(start)}*{start_count}",
                    f"$wmma_mma_sync<{size}, {{t}}, {one}, {two}, {{w}}, {{satfinite}}>({{d}}, {{a}}, {{b}}, {{c}});",
                )
            )
    return rows


ROWS = [
    *(
        _mma(shape, (_EIGHT_BITS.get(type_, type_), _EIGHT_BITS.get(type_, type_), sums), (a, b, c))
        for shape, type_, sums, a, b, c in _PRODUCTS
        if type_ != "e5m2"
    ),
    *(_mma(shape, ("u8|s8", "u8|s8", "s32"), (a, b, c), "satfinite?") for shape, a, b, c in _INTEGERS),
    *(
        _warp(
            "ldmatrix",
            f"sync aligned? m8n8 {count} trans? {_SPACE} b16",
            f"d=u32*{count[1:]} @a:b8!raw",
            f"$ldmatrix_sync<{count[1:]}, {{trans}}>({{d}}, {{a}});",
        )
        for count in ("x1", "x2", "x4")
    ),
    *(
        _warp(
            "stmatrix",
            f"sync aligned? m8n8 {count} trans? {_SPACE} b16",
            f"@a:b8!raw b:u32*{count[1:]}",
            f"$stmatrix_sync<{count[1:]}, {{trans}}>({{a}}, {{b}});",
        )
        for count in ("x1", "x2", "x4")
    ),
    _warp("movmatrix", "sync aligned? m8n8 trans b16", "d=u32 a:u32", "$movmatrix_sync({a})"),
    *(row for type_, shapes in _TILES.items() for shape, a, b in shapes for row in _wmma(shape, type_, a, b)),
]
