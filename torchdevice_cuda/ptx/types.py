"""The types of PTX: their sizes, and their C++ types in ``host_ptx``."""

from __future__ import annotations

from typing import NamedTuple


class Type(NamedTuple):
    """A type of PTX."""

    bits: int
    c_type: str
    is_float: bool = False


TYPES = {
    **{f"{kind}{bits}": Type(bits, f"uint{bits}_t") for kind in "ub" for bits in (8, 16, 32, 64)},
    **{f"s{bits}": Type(bits, f"int{bits}_t") for bits in (8, 16, 32, 64)},
    "pred": Type(1, "bool"),
    "f16": Type(16, "f16", True),
    "bf16": Type(16, "bf16", True),
    "f32": Type(32, "float", True),
    "f64": Type(64, "double", True),
    "tf32": Type(32, "tf32", True),
    "f16x2": Type(32, "f16x2"),
    "bf16x2": Type(32, "bf16x2"),
    "f32x2": Type(64, "f32x2"),
    "u16x2": Type(32, "u16x2"),
    "s16x2": Type(32, "s16x2"),
    "e4m3x2": Type(16, "e4m3x2"),
    "e5m2x2": Type(16, "e5m2x2"),
    "e2m1x2": Type(8, "e2m1x2"),
    "e4m3": Type(8, "e4m3"),
    "e5m2": Type(8, "e5m2"),
}
#: The type of a register by its size.
CONTAINERS = {1: "bool", 8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
_WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}


def widen(name: str) -> str:
    """Return the integer type of twice the size."""
    return _WIDER[name]
