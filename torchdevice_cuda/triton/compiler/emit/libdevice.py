"""Functions of CUDA's library of mathematics (libdevice), by their symbols: ``__nv_tanhf`` is ``tanh`` of a float."""

from __future__ import annotations

import re

from ..ir import Unsupported

#: Functions of ``runtime/functions.h`` and ``runtime/rounding.h``, for each type of their operands.
_FUNCTIONS = (
    "sqrt rsqrt exp exp2 exp10 log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc floor ceil trunc round rint nearbyint cbrt fabs lgamma tgamma logb isnan isinf isfinite signbit saturate "
    "abs clz popc ffs brev ilogb pow fmod atan2 hypot copysign fdim nextafter remainder fmax fmin fma ldexp powi "
    "byte_perm mulhi mul64hi mul24 umul24 sad usad hadd rhadd uhadd urhadd rcp64h double2hiint double2loint "
    "hiloint2double"
).split()
#: Functions of ``runtime/library.h``, of double precision.
_LIBRARY = (
    "sinpi cospi rcbrt rhypot norm3d norm4d rnorm3d rnorm4d erfcx erfcinv erfinv normcdf normcdfinv cyl_bessel_i0 "
    "cyl_bessel_i1 j0 j1 jn y0 y1 yn"
).split()
#: Names that differ: fast versions, and those of a type.
_OTHERS = {
    "fast_sin": "sin", "fast_cos": "cos", "fast_tan": "tan", "fast_log": "log", "fast_log2": "log2",
    "fast_log10": "log10", "fast_exp": "exp", "fast_exp10": "exp10", "fast_pow": "pow", "fast_tanh": "tanh",
    "tanh_approx": "tanh", "finite": "isfinite", "llabs": "abs", "frsqrt_rn": "rsqrt", "scalbn": "ldexp",
}  # fmt: skip
#: Templates of functions that are no calls.
_TEMPLATES = {
    "max": "larger({0}, {1})", "min": "smaller({0}, {1})", "llmax": "larger({0}, {1})", "llmin": "smaller({0}, {1})",
    "umax": "larger_unsigned({0}, {1})", "umin": "smaller_unsigned({0}, {1})",
    "ullmax": "larger_unsigned({0}, {1})", "ullmin": "smaller_unsigned({0}, {1})",
    "umulhi": "multiply_high({0}, {1})", "umul64hi": "multiply_high({0}, {1})",
    "fast_fdivide": "({t})({0} / {1})", "fdivide": "({t})({0} / {1})",
    "float_as_int": "bits_as<int32_t>({0})", "int_as_float": "bits_as<float>({0})",
    "float_as_uint": "bits_as<int32_t>({0})", "uint_as_float": "bits_as<float>({0})",
    "double_as_longlong": "bits_as<int64_t>({0})", "longlong_as_double": "bits_as<double>({0})",
    "llrint": "to_integer<{t}>(fn_rint({0}))", "lrint": "to_integer<{t}>(fn_rint({0}))",
    "llround": "to_integer<{t}>(fn_round({0}))", "lround": "to_integer<{t}>(fn_round({0}))",
}  # fmt: skip
_ROUNDINGS = {"rn": "NEAREST", "rd": "DOWN", "ru": "UP", "rz": "TOWARD_ZERO"}
_UNSIGNED = "make_unsigned<{t}>::type"


def write_extern(symbol: str, count: int) -> str:
    """Return the template of a function of the library."""
    name = symbol.removeprefix("__nv_")
    operands = ", ".join(f"{{{index}}}" for index in range(count))
    for candidate in (name, *(name.removesuffix(end) for end in ("f", "d", "ll") if name.endswith(end))):
        function = _OTHERS.get(candidate, candidate)
        if candidate in _TEMPLATES:
            return _TEMPLATES[candidate]
        if function in _FUNCTIONS:
            return f"({{t}})fn_{function}({operands})"
        if function in _LIBRARY:
            return f"({{t}})library::{function}({operands})"
    rounded = _write_rounded(name, operands)
    if rounded is None:
        raise Unsupported(f"{symbol} of libdevice")
    return rounded


def _write_rounded(name: str, operands: str) -> str | None:
    """Return the template of a function whose name ends with its rounding."""
    found = re.fullmatch(r"(\w+)_(r[nduz])", name)
    if found is None:
        return None
    stem, rounding = found[1], _ROUNDINGS[found[2]]
    if re.fullmatch(r"[fd](add|sub|mul|div|rcp|sqrt)|fmaf?", stem):
        function = "fma" if stem.startswith("fma") else stem[1:]
        return f"fn_{function}({operands}, {rounding})"
    if stem == "double2float":
        return f"round_double({operands}, {rounding})"
    if re.fullmatch(r"(float|double)2u?(int|ll)", stem):
        type_ = _UNSIGNED if "2u" in stem else "{t}"
        return f"({{t}})round_to_integer<{type_}>({operands}, {rounding})"
    if re.fullmatch(r"u?(int|ll)2(float|double)", stem):
        value = f"as_unsigned({operands})" if stem.startswith("u") else operands
        return f"round_integer<{{t}}>({value}, {rounding})"
    return None
