"""Elementwise operators, of one array and of several."""

from __future__ import annotations

import math
from typing import Any

import torch

from .entries import ANY, BOOL, C64, F32, FLOATS, INTS, REAL, Function, op, plain, same, unary

# ------------------------------------------------------------------------- one array, elementwise
_UNARY_FLOAT = (
    "acos acosh asin asinh atan atanh cos cosh erf exp expm1 log log10 log1p log2 rsqrt sigmoid sin sinh sqrt tan "
    "tanh reciprocal ceil floor trunc erfinv round"
)
#: MLX's names of operators, and their dtypes.
_UNARY = {
    **{name: (name, F32) for name in _UNARY_FLOAT.split()},
    **{name: (name, REAL) for name in ("abs", "sign")},
    **{name: (name, FLOATS) for name in ("isnan", "isposinf", "isneginf")},
    "neg": ("negative", REAL),
    "sgn": ("sign", REAL),
    "deg2rad": ("radians", F32),
    "rad2deg": ("degrees", F32),
    "logical_not": ("logical_not", ANY),
    "_conj_physical": ("conjugate", C64),
}
for _name, (_mlx_name, _dtypes) in _UNARY.items():
    op(_name, _dtypes)(unary(_mlx_name))
op("bitwise_not", INTS | BOOL)(lambda mx, x: mx.logical_not(x) if x.dtype == mx.bool_ else mx.bitwise_invert(x))
op("relu", REAL)(lambda mx, x: mx.maximum(x, mx.array(0, x.dtype)))
op("special_entr", F32)(
    lambda mx, x: mx.where(x > 0, -x * mx.log(x), mx.where(x == 0, mx.array(0.0), mx.where(x < 0, -mx.inf, x)))
)
_FORMULAS: dict[str, Function] = {
    "exp2": lambda mx, x: mx.power(2.0, x),
    "erfc": lambda mx, x: 1 - mx.erf(x),
    "frac": lambda mx, x: x - mx.trunc(x),
    "silu": lambda mx, x: x * mx.sigmoid(x),
    "mish": lambda mx, x: x * mx.tanh(mx.logaddexp(x, mx.zeros_like(x))),
    "hardsigmoid": lambda mx, x: mx.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda mx, x: x * mx.clip(x + 3, 0, 6) / 6,
    "sinc": lambda mx, x: mx.where(x == 0, mx.array(1.0), mx.sin(math.pi * x) / (math.pi * x)),
    "leaky_relu": lambda mx, x, negative_slope=0.01: mx.where(x > 0, x, x * negative_slope),
    "hardtanh": lambda mx, x, min_val=-1, max_val=1: mx.clip(x, min_val, max_val),
    "clamp": lambda mx, x, min=None, max=None: mx.clip(x, min, max),
    "clamp_min": lambda mx, x, least: mx.clip(x, least, None),
    "clamp_max": lambda mx, x, most: mx.clip(x, None, most),
}
for _name, _formula in _FORMULAS.items():
    op(_name, F32)(_formula)


@op("gelu", F32)
def _gelu(mx: Any, x: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + mx.erf(x / math.sqrt(2)))


@op("softplus", F32)
def _softplus(mx: Any, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return mx.where(x * beta > threshold, x, mx.logaddexp(x * beta, mx.zeros_like(x)) / beta)


@op("elu", F32)
def _elu(mx: Any, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return mx.where(x > 0, x * scale, mx.expm1(x * input_scale) * (alpha * scale))


@op("logit", F32, lambda x, eps=None: eps is None)
def _logit(mx: Any, x: Any, eps: float | None = None) -> Any:
    return mx.log(x / (1 - x))


@op("nan_to_num", FLOATS)
def _nan_to_num(
    mx: Any, x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    return mx.nan_to_num(x, 0.0 if nan is None else nan, posinf, neginf)


# ------------------------------------------------------------------------ two arrays, elementwise
def _number(mx: Any, value: Any, like: Any) -> Any:
    return mx.array(value, like.dtype) if isinstance(value, (int, float)) else value


def _binary(mlx_name: str) -> Function:
    def compute(mx: Any, x: Any, y: Any) -> Any:
        return getattr(mx, mlx_name)(x, _number(mx, y, x))

    return compute


_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
_COMPARISONS |= {"gt": "greater", "ge": "greater_equal"}
#: MLX's names of operators, their dtypes and the check of their arguments.
_BINARY = {
    **{f"{name}.Tensor {name}.Scalar": (mlx_name, REAL, plain) for name, mlx_name in _COMPARISONS.items()},
    **{f"bitwise_{name}.Tensor": (f"bitwise_{name}", INTS, same) for name in ("and", "or", "xor")},
    **{name: (name, ANY, same) for name in ("logical_and", "logical_or")},
    **{name: (name, REAL, same) for name in ("maximum", "minimum")},
    "logical_xor": ("not_equal", BOOL, same),
    "atan2": ("arctan2", F32, same),
    "logaddexp": ("logaddexp", F32, same),
    "div.Tensor": ("divide", F32, plain),
    "mul.Tensor": ("multiply", REAL, plain),
    "remainder.Tensor remainder.Scalar": ("remainder", F32, plain),
    "pow.Tensor_Tensor pow.Tensor_Scalar": ("power", F32, plain),
}
for _name, (_mlx_name, _dtypes, _accepts) in _BINARY.items():
    op(_name, _dtypes, _accepts)(_binary(_mlx_name))
op("pow.Scalar", F32)(lambda mx, x, y: mx.power(_number(mx, x, y), y))


def _scaled(mlx_name: str) -> Function:
    """Return a sum or difference whose second term has a factor."""

    def compute(mx: Any, x: Any, y: Any, *, alpha: float = 1) -> Any:
        y = _number(mx, y, x)
        return getattr(mx, mlx_name)(x, y if alpha == 1 else y * mx.array(alpha, x.dtype))

    return compute


op("add.Tensor", REAL, plain)(_scaled("add"))
op("sub.Tensor", REAL, plain)(_scaled("subtract"))
_SAME_FORMULAS: dict[str, Function] = {
    "logaddexp2": lambda mx, x, y: mx.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2),
    "lerp.Scalar lerp.Tensor": lambda mx, x, end, weight: x + weight * (end - x),
    "addcmul": lambda mx, x, one, other, *, value=1: x + value * one * other,
    "addcdiv": lambda mx, x, one, other, *, value=1: x + value * (one / other),
}
for _name, _formula in _SAME_FORMULAS.items():
    op(_name, F32, same)(_formula)


@op("hypot", F32, same)
def _hypot(mx: Any, x: Any, y: Any) -> Any:
    x, y = mx.abs(x), mx.abs(y)
    longer, shorter = mx.maximum(x, y), mx.minimum(x, y)
    ratio = mx.where(shorter == longer, mx.array(1.0), shorter / longer)  # two zeros, two infinities
    length = longer * mx.sqrt(1 + ratio * ratio)  # squaring the arrays themselves would overflow
    return mx.where(mx.logical_or(mx.isinf(x), mx.isinf(y)), mx.array(math.inf), length)


@op("div.Tensor_mode", F32, lambda x, y, *, rounding_mode: plain(x, y) and rounding_mode in (None, "trunc"))
def _div(mx: Any, x: Any, y: Any, *, rounding_mode: str | None) -> Any:
    quotient = mx.divide(x, _number(mx, y, x))
    return quotient if rounding_mode is None else mx.trunc(quotient)


@op("heaviside", REAL, same)
def _heaviside(mx: Any, x: Any, values: Any) -> Any:
    zero, one = mx.array(0, x.dtype), mx.array(1, x.dtype)
    steps = mx.where(x > 0, one, zero)
    return mx.where(x == 0, values, steps)


@op("xlogy.Tensor", F32, same)
def _xlogy(mx: Any, x: Any, y: Any) -> Any:
    product = x * mx.log(y)
    return mx.where(mx.isnan(y), y, mx.where(x == 0, mx.zeros_like(product), product))


@op("copysign.Tensor", F32, same)
def _copysign(mx: Any, x: Any, y: Any) -> Any:
    negative = mx.logical_or(y < 0, mx.divide(mx.array(1.0), y) < 0)
    return mx.where(negative, -mx.abs(x), mx.abs(x))


@op("where.self", ANY, lambda condition, x, y: condition.dtype is torch.bool and same(x, y))
def _where(mx: Any, condition: Any, x: Any, y: Any) -> Any:
    return mx.where(condition, x, y)


@op("masked_fill.Scalar", REAL | BOOL, lambda x, mask, value: mask.dtype is torch.bool and plain(x, value))
def _masked_fill(mx: Any, x: Any, mask: Any, value: float) -> Any:
    return mx.where(mask, mx.array(value, x.dtype), x)


@op("rsub.Scalar", F32, plain)
def _rsub(mx: Any, x: Any, other: float, alpha: float = 1) -> Any:
    return other - alpha * x
