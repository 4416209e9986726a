"""CUDA's library of mathematics, which kernels call by ``libdevice``, for arrays of the host."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]


def _each(function: Callable[..., float]) -> Function:
    """A function of one number for every element; numpy has none."""
    return np.vectorize(function, otypes=[np.float64])


def _lgamma(x: float) -> float:
    return math.inf if math.isinf(x) or (x <= 0 and x == math.floor(x)) else math.lgamma(x)


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    if x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf


def _erfcx(x: float) -> float:
    if x < 25:
        return math.exp(x * x) * math.erfc(x)
    return 1 / (x * math.sqrt(math.pi)) * (1 - 1 / (2 * x * x))


def _round(x: Any) -> Any:
    """Halves away from zero, as C rounds."""
    return np.copysign(np.floor(np.abs(x) + np.where(np.abs(x) < 2**52, 0.5, 0)), x)


def _bits(x: Any) -> int:
    return int(x.dtype.itemsize * 8)


def _popc(x: Any) -> Any:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    return sum((unsigned >> unsigned.dtype.type(i)) & unsigned.dtype.type(1) for i in range(_bits(x)))


def _clz(x: Any) -> Any:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    zeros = np.full(x.shape, _bits(x))
    for i in range(_bits(x)):
        zeros = np.where((unsigned >> unsigned.dtype.type(i)) & unsigned.dtype.type(1), _bits(x) - 1 - i, zeros)
    return zeros


def _ffs(x: Any) -> Any:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    first = np.zeros(x.shape, dtype=np.int64)
    for i in reversed(range(_bits(x))):
        first = np.where((unsigned >> unsigned.dtype.type(i)) & unsigned.dtype.type(1), i + 1, first)
    return first


#: By CUDA's name, without what says the type. Real functions get float64 and are rounded once.
REAL: dict[str, Function] = {
    **{
        name: getattr(np, name)
        for name in (
            "exp expm1 exp2 log log2 log10 log1p sqrt cbrt sin cos tan sinh cosh tanh floor ceil trunc rint hypot "
            "fmod copysign fabs fmax fmin nextafter ldexp"
        ).split()
    },
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "exp10": lambda x: np.power(10.0, x),
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "nearbyint": np.rint,
    "round": _round,
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.maximum(x - y, 0)),
    "fma": lambda x, y, z: x * y + z,
    "saturate": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)),
    "sinpi": lambda x: np.sin(np.pi * np.fmod(x, 2)),
    "cospi": lambda x: np.cos(np.pi * np.fmod(x, 2)),
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
    "erfcx": _each(_erfcx),
    "lgamma": _each(_lgamma),
    "tgamma": _each(_gamma),
    "fast_exp": np.exp,
    "fast_exp10": lambda x: np.power(10.0, x),
    "fast_log": np.log,
    "fast_log2": np.log2,
    "fast_log10": np.log10,
    "fast_sin": np.sin,
    "fast_cos": np.cos,
    "fast_tan": np.tan,
    "fast_tanh": np.tanh,
    "fast_pow": np.power,
    "fast_fdivide": lambda x, y: x / y,
    **{
        f"{name}_rn": rounded
        for name, rounded in (
            ("div", lambda x, y: x / y),
            ("mul", lambda x, y: x * y),
            ("add", lambda x, y: x + y),
            ("sub", lambda x, y: x - y),
            ("sqrt", np.sqrt),
            ("rsqrt", lambda x: 1 / np.sqrt(x)),
            ("rcp", lambda x: 1 / x),
            ("fma", lambda x, y, z: x * y + z),
        )
    },
}
#: These get the elements as they are.
EXACT: dict[str, Function] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "finite": np.isfinite,
    "isfinite": np.isfinite,
    "signbit": np.signbit,
    "abs": np.abs,
    "llabs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "llmin": np.minimum,
    "llmax": np.maximum,
    "umin": np.minimum,
    "umax": np.maximum,
    "popc": _popc,
    "clz": _clz,
    "ffs": _ffs,
    "float_as_int": lambda x: x.view(np.int32),
    "int_as_float": lambda x: x.view(np.float32),
    "float_as_uint": lambda x: x.view(np.uint32),
    "uint_as_float": lambda x: x.view(np.float32),
    "double_as_longlong": lambda x: x.view(np.int64),
    "longlong_as_double": lambda x: x.view(np.float64),
    "llrint": np.rint,
    "llround": _round,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
}
_SYMBOL = re.compile(r"__nv_(\w+)")


def _named(symbol: str, table: dict[str, Function]) -> Function | None:
    """A function by its symbol: ``__nv_tanhf`` is ``tanh`` of single precision, ``__nv_clzll`` is ``clz`` of long."""
    found = _SYMBOL.fullmatch(symbol)
    name = found.group(1) if found is not None else symbol
    candidates = [name, *(name.removesuffix(end) for end in ("f", "d", "ll") if name.endswith(end))]
    # Where the type is written before the rounding: fdiv_rn is div_rn, dadd_rn is add_rn.
    candidates += [name[1:]] if name[:1] in ("f", "d") and name.endswith("_rn") else []
    return next((table[c] for c in candidates if c in table), None)


def compute(interpreter: Any) -> Function:
    """What the interpreter's builder does with a function of the library; it has none of its own."""

    def create_extern_elementwise(
        self: Any, library: str, path: str, symbol: str, arguments: list[Any], result: Any, is_pure: bool
    ) -> Any:
        arrays = [argument.data for argument in arguments]
        real, exact = _named(symbol, REAL), _named(symbol, EXACT)
        kind = interpreter._get_np_dtype(result)
        if exact is not None:
            values = exact(*arrays)
        elif real is not None:
            wide = [array.astype(np.float64) if array.dtype.kind == "f" else array for array in arrays]
            values = real(*wide)
        else:
            raise NotImplementedError(f"{symbol} of CUDA's library of mathematics is not computed on the host")
        return interpreter.TensorHandle(np.asarray(values).astype(kind), result.scalar)

    return create_extern_elementwise
