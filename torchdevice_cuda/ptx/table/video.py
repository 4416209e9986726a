"""Video instructions: arithmetic of parts of registers, with saturation, a second operation or a merge."""

from __future__ import annotations

from .rows import Row

_TYPES = "t:u32|s32 u:u32|s32 v:u32|s32"
_OPERANDS = "a:u%part b:v%part"
_COMPARISON = "u:u32|s32 v:u32|s32 is:eq|ne|lt|le|gt|ge"
_ARITHMETIC = ("add", "sub", "absdiff", "min", "max")


def _list_scalar(base: str, pattern: str, function: str, t: str = "t", sat: str = "{sat}") -> list[Row]:
    """Return the forms of an instruction of one part: alone, with a second operation, and merged into a register."""
    name = f"{{{t}}}" if t == "t" else "uint32_t"
    value = f"#{function}(#video_part<{{u}}>({{a}}, {{a_part}}), #video_part<{{v}}>({{b}}, {{b_part}}))"
    whole = f"#video_cut<{name}, {sat}>({value}, 0, 32)"
    return [
        Row(base, pattern, f"d={t} {_OPERANDS}", whole),
        Row(base, f"{pattern} op:add|min|max", f"d={t} {_OPERANDS} c:{t}", f"#video_{{op}}_third({whole}, {{c}})"),
        Row(
            base,
            pattern,
            f"d={t}%merged {_OPERANDS} c:{t}",
            f"#video_merge(#video_cut<{name}, {sat}>({value}, {{d_part}}), {{c}}, {{d_part}})",
        ),
    ]


def _list_lanes(base: str, count: int, pattern: str, function: str, t: str = "t", sat: str = "{sat}") -> list[Row]:
    """Return the forms of an instruction of two or four lanes: merged with a register, and added to it."""
    name = f"{{{t}}}" if t == "t" else "uint32_t"
    operands = f"d={t}%mask{count} a:u32%first{count} b:u32%second{count} c:{t}"

    def write(sat: str, adds: str) -> str:
        given = "{a}, {b}, {c}, {a_part}, {b_part}, {d_part}"
        return f"#video_lanes<{count}, {name}, {{u}}, {{v}}, {sat}, {adds}>({given}, #{function}{{{{}}}})"

    return [
        Row(base, f"{pattern} sat?" if t == "t" else pattern, operands, write(sat, "false")),
        Row(base, f"{pattern} add", operands, write("false", "true")),
    ]


ROWS = [
    *(row for name in _ARITHMETIC for row in _list_scalar(f"v{name}", f"{_TYPES} sat?", f"video_{name}{{{{}}}}")),
    *(
        row
        for name in ("shl", "shr")
        for row in _list_scalar(
            f"v{name}", "t:u32|s32 u:u32|s32 v:u32 sat? mode:clamp|wrap", f"video_{name}_{{mode}}{{{{}}}}"
        )
    ),
    *_list_scalar("vset", _COMPARISON, "video_{is}{{}}", "u32", "false"),
    Row(
        "vmad",
        f"{_TYPES} po? sat? scale?:shr7|shr15",
        f"d=t {_OPERANDS} c:t",
        "#video_mad{scale_suffix}<{t}, {u}, {v}, {sat}, {po}>"
        "(#video_part<{u}>({a}, {a_part}), #video_part<{v}>({b}, {b_part}), {c})",
    ),
    *(
        row
        for count in (2, 4)
        for name in (*_ARITHMETIC, "avrg")
        for row in _list_lanes(f"v{name}{count}", count, _TYPES, f"video_{name}")
    ),
    *(row for count in (2, 4) for row in _list_lanes(f"vset{count}", count, _COMPARISON, "video_{is}", "u32", "false")),
]
