"""Functions of CUDA's library of mathematics (libdevice), by their symbols: ``__nv_tanhf`` is ``tanh`` of a float."""

from __future__ import annotations

import re

from ..ir import Unsupported

_SAME = (
    "sqrt rsqrt exp exp2 exp10 log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc floor ceil trunc round rint nearbyint cbrt fabs lgamma tgamma logb isnan isinf isfinite signbit saturate "
    "abs clz popc ffs brev ilogb pow fmod atan2 hypot copysign fdim nextafter remainder fmax fmin fma ldexp powi"
).split()
#: Names that differ: fast versions, those with a rounding, and those by type.
_OTHERS = {
    "fast_sin": "sin", "fast_cos": "cos", "fast_tan": "tan", "fast_log": "log", "fast_log2": "log2",
    "fast_log10": "log10",
    "fast_exp": "exp", "fast_exp10": "exp10", "fast_pow": "pow", "isfinited": "isfinite", "finite": "isfinite",
    "sqrt_rn": "sqrt", "fsqrt_rn": "sqrt", "dsqrt_rn": "sqrt", "fmaf_rn": "fma", "fma_rn": "fma", "rsqrt_rn": "rsqrt",
    "frsqrt_rn": "rsqrt", "tanh_approx": "tanh", "saturate": "saturate", "max": "larger", "min": "smaller",
    "frcp_rn": "rcp", "drcp_rn": "rcp", "rcp_rn": "rcp", "isinfd": "isinf", "isnand": "isnan", "signbitd": "signbit",
}  # fmt: skip
_OPERATORS = {"fadd_rn": "+", "dadd_rn": "+", "fsub_rn": "-", "dsub_rn": "-", "fmul_rn": "*", "dmul_rn": "*",
              "fdiv_rn": "/", "ddiv_rn": "/", "fast_fdivide": "/", "fdivide": "/"}  # fmt: skip
_TO_INTEGERS = {"llrint": "rint", "llround": "round", "lrint": "rint", "lround": "round"}
_BITS = {"float_as_int": "int32_t", "int_as_float": "float", "float_as_uint": "int32_t", "uint_as_float": "float",
         "double_as_longlong": "int64_t", "longlong_as_double": "double"}  # fmt: skip


def write_extern(symbol: str, count: int) -> str:
    """Return the template of a function of the library."""
    name = symbol.removeprefix("__nv_")
    candidates = [name, *(name.removesuffix(end) for end in ("f", "d", "ll") if name.endswith(end))]
    operands = ", ".join(f"{{w{index}}}" for index in range(count))
    for candidate in candidates:
        if candidate in _SAME:
            if candidate == "ldexp" or candidate == "powi":
                operands = "{w0}, {1}"
            return f"({{t}})fn_{candidate}({operands})"
        if candidate in _OTHERS:
            function = _OTHERS[candidate]
            prefix = "" if function in ("larger", "smaller") else "fn_"
            return f"({{t}}){prefix}{function}({operands})"
        if candidate in _OPERATORS:
            return f"({{t}})({{w0}} {_OPERATORS[candidate]} {{w1}})"
        if candidate in _TO_INTEGERS:
            return f"to_integer<{{t}}>(fn_{_TO_INTEGERS[candidate]}({{w0}}))"
        if candidate in _BITS:
            return f"bits_as<{_BITS[candidate]}>({{0}})"
        if re.fullmatch(r"(float|double)2u?(int|ll)_rz", candidate):
            return "to_integer<{t}>({w0})"
        if re.fullmatch(r"(u?int|u?ll)2(float|double)_rn", candidate):
            return "({t})as_unsigned({0})" if candidate.startswith("u") else "({t})({0})"
    raise Unsupported(f"{symbol} of libdevice")
