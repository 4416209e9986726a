"""Operators that MLX can compute: for each its function, with the operator's own arguments, and the dtypes it takes.

Every entry is verified against the CPU over torch's own samples; what MLX does otherwise than torch (other promotion
rules, other treatment of NaN, fewer dtypes) is left out by the entry's limits. Limits that take a look at the values
are checked by the functions, which raise :class:`UnfitError`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from .mlx_arrays import mlx, to_mlx, to_torch

F32 = frozenset({torch.float32})
FLOATS = frozenset({torch.float32, torch.float16, torch.bfloat16})
INTS = frozenset({torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8})
BOOL = frozenset({torch.bool})
C64 = frozenset({torch.complex64})
REAL = FLOATS | INTS
ANY = REAL | BOOL

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Entry:
    """One operator: ``function(mx, *arguments)`` computes it for tensors of these dtypes that it accepts."""

    name: str
    function: Function
    dtypes: frozenset[torch.dtype]
    accepts: Callable[..., bool] | None = None


TABLE: dict[str, Entry] = {}


def _op(names: str, dtypes: frozenset[torch.dtype], accepts: Callable[..., bool] | None = None) -> Callable:
    """Enter a function in the table under the names of operators."""

    def enter(function: Function) -> Function:
        for name in names.split():
            TABLE[name] = Entry(name, function, dtypes, accepts)
        return function

    return enter


class UnfitError(ValueError):
    """MLX computes these values otherwise than torch does."""


def tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among arguments, those in lists too."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors(value)
    return found


def fits(entry: Entry, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether an entry computes these arguments as torch does."""
    found = tensors((*args, *kwargs.values()))
    if mlx() is None or not found:
        return False
    for tensor in found:
        if tensor.dtype not in entry.dtypes or tensor.layout is not torch.strided or tensor.numel() == 0:
            return False
    return entry.accepts is None or entry.accepts(*args, **kwargs)


def run(entry: Entry, *args: Any, **kwargs: Any) -> Any:
    """Compute an operator for tensors of the CPU; the results are tensors of the CPU."""
    given = entry.function(mlx(), *map(to_mlx, args), **{key: to_mlx(value) for key, value in kwargs.items()})
    return to_torch(given)


# ------------------------------------------------------------------------- one array, elementwise
def _unary(mlx_name: str) -> Function:
    return lambda mx, x: getattr(mx, mlx_name)(x)


_UNARY_FLOAT = (
    "acos acosh asin asinh atan atanh cos cosh erf exp expm1 log log10 log1p log2 rsqrt sigmoid sin sinh sqrt tan "
    "tanh reciprocal ceil floor trunc erfinv round"
)
#: Operators under MLX's names for them, and their dtypes.
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
    _op(_name, _dtypes)(_unary(_mlx_name))
_op("bitwise_not", INTS | BOOL)(lambda mx, x: mx.logical_not(x) if x.dtype == mx.bool_ else mx.bitwise_invert(x))
_op("relu", REAL)(lambda mx, x: mx.maximum(x, mx.array(0, x.dtype)))
_op("special_entr", F32)(
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
    _op(_name, F32)(_formula)


@_op("gelu", F32)
def _gelu(mx: Any, x: Any, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1 + mx.erf(x / math.sqrt(2)))


@_op("softplus", F32)
def _softplus(mx: Any, x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return mx.where(x * beta > threshold, x, mx.logaddexp(x * beta, mx.zeros_like(x)) / beta)


@_op("elu", F32)
def _elu(mx: Any, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    return mx.where(x > 0, x * scale, mx.expm1(x * input_scale) * (alpha * scale))


@_op("logit", F32, lambda x, eps=None: eps is None)
def _logit(mx: Any, x: Any, eps: float | None = None) -> Any:
    return mx.log(x / (1 - x))


@_op("nan_to_num", FLOATS)
def _nan_to_num(
    mx: Any, x: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    return mx.nan_to_num(x, 0.0 if nan is None else nan, posinf, neginf)


# ------------------------------------------------------------------------ two arrays, elementwise
def _same(*values: Any, **named: Any) -> bool:
    """Whether all tensors are of one dtype: MLX promotes otherwise than torch does."""
    return len({tensor.dtype for tensor in tensors((*values, *named.values()))}) == 1


def _plain(*values: Any, **named: Any) -> bool:
    """The same, for numbers that do not promote: a float beside integers would."""
    found = tensors((*values, *named.values()))
    integral = any(not tensor.is_floating_point() for tensor in found)
    numbers = [value for value in (*values, *named.values()) if isinstance(value, (int, float, complex))]
    promotes = any(isinstance(number, complex) or (integral and not isinstance(number, int)) for number in numbers)
    return _same(*values, **named) and not promotes and not any(isinstance(number, bool) for number in numbers)


def _number(mx: Any, value: Any, like: Any) -> Any:
    return mx.array(value, like.dtype) if isinstance(value, (int, float)) else value


def _binary(mlx_name: str) -> Function:
    def compute(mx: Any, x: Any, y: Any) -> Any:
        return getattr(mx, mlx_name)(x, _number(mx, y, x))

    return compute


_COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal"}
_COMPARISONS |= {"gt": "greater", "ge": "greater_equal"}
#: Operators under MLX's names for them, their dtypes and what they accept.
_BINARY = {
    **{f"{name}.Tensor {name}.Scalar": (mlx_name, REAL, _plain) for name, mlx_name in _COMPARISONS.items()},
    **{f"bitwise_{name}.Tensor": (f"bitwise_{name}", INTS, _same) for name in ("and", "or", "xor")},
    **{name: (name, ANY, _same) for name in ("logical_and", "logical_or")},
    **{name: (name, REAL, _same) for name in ("maximum", "minimum")},
    "logical_xor": ("not_equal", BOOL, _same),
    "atan2": ("arctan2", F32, _same),
    "logaddexp": ("logaddexp", F32, _same),
    "div.Tensor": ("divide", F32, _plain),
    "mul.Tensor": ("multiply", REAL, _plain),
    "remainder.Tensor remainder.Scalar": ("remainder", F32, _plain),
    "pow.Tensor_Tensor pow.Tensor_Scalar": ("power", F32, _plain),
}
for _name, (_mlx_name, _dtypes, _accepts) in _BINARY.items():
    _op(_name, _dtypes, _accepts)(_binary(_mlx_name))
_op("pow.Scalar", F32)(lambda mx, x, y: mx.power(_number(mx, x, y), y))


def _scaled(mlx_name: str) -> Function:
    """A sum or difference whose second term has a factor."""

    def compute(mx: Any, x: Any, y: Any, *, alpha: float = 1) -> Any:
        y = _number(mx, y, x)
        return getattr(mx, mlx_name)(x, y if alpha == 1 else y * mx.array(alpha, x.dtype))

    return compute


_op("add.Tensor", REAL, _plain)(_scaled("add"))
_op("sub.Tensor", REAL, _plain)(_scaled("subtract"))
_SAME_FORMULAS: dict[str, Function] = {
    "logaddexp2": lambda mx, x, y: mx.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2),
    "lerp.Scalar lerp.Tensor": lambda mx, x, end, weight: x + weight * (end - x),
    "addcmul": lambda mx, x, one, other, *, value=1: x + value * one * other,
    "addcdiv": lambda mx, x, one, other, *, value=1: x + value * (one / other),
}
for _name, _formula in _SAME_FORMULAS.items():
    _op(_name, F32, _same)(_formula)


@_op("hypot", F32, _same)
def _hypot(mx: Any, x: Any, y: Any) -> Any:
    x, y = mx.abs(x), mx.abs(y)
    longer, shorter = mx.maximum(x, y), mx.minimum(x, y)
    ratio = mx.where(shorter == longer, mx.array(1.0), shorter / longer)  # two zeros, two infinities
    length = longer * mx.sqrt(1 + ratio * ratio)  # squares of the arrays themselves would overflow
    return mx.where(mx.logical_or(mx.isinf(x), mx.isinf(y)), mx.array(math.inf), length)


@_op("div.Tensor_mode", F32, lambda x, y, *, rounding_mode: _plain(x, y) and rounding_mode in (None, "trunc"))
def _div(mx: Any, x: Any, y: Any, *, rounding_mode: str | None) -> Any:
    quotient = mx.divide(x, _number(mx, y, x))
    return quotient if rounding_mode is None else mx.trunc(quotient)


@_op("heaviside", REAL, _same)
def _heaviside(mx: Any, x: Any, values: Any) -> Any:
    zero, one = mx.array(0, x.dtype), mx.array(1, x.dtype)
    steps = mx.where(x > 0, one, zero)
    return mx.where(x == 0, values, steps)


@_op("xlogy.Tensor", F32, _same)
def _xlogy(mx: Any, x: Any, y: Any) -> Any:
    product = x * mx.log(y)
    return mx.where(mx.isnan(y), y, mx.where(x == 0, mx.zeros_like(product), product))


@_op("copysign.Tensor", F32, _same)
def _copysign(mx: Any, x: Any, y: Any) -> Any:
    negative = mx.logical_or(y < 0, mx.divide(mx.array(1.0), y) < 0)
    return mx.where(negative, -mx.abs(x), mx.abs(x))


@_op("where.self", ANY, lambda condition, x, y: condition.dtype is torch.bool and _same(x, y))
def _where(mx: Any, condition: Any, x: Any, y: Any) -> Any:
    return mx.where(condition, x, y)


@_op("masked_fill.Scalar", REAL | BOOL, lambda x, mask, value: mask.dtype is torch.bool and _plain(x, value))
def _masked_fill(mx: Any, x: Any, mask: Any, value: float) -> Any:
    return mx.where(mask, mx.array(value, x.dtype), x)


@_op("rsub.Scalar", F32, _plain)
def _rsub(mx: Any, x: Any, other: float, alpha: float = 1) -> Any:
    return other - alpha * x


# ------------------------------------------------------------------------------------ reductions
def _axes(dim: Any) -> Any:
    """All axes for ``None`` and for none, as torch reads them."""
    return None if dim is None or (isinstance(dim, (list, tuple)) and not dim) else dim


def _no_dtype(*values: Any, dtype: Any = None, **named: Any) -> bool:
    return dtype is None


def _has_axes(x: torch.Tensor, *values: Any, **named: Any) -> bool:
    return x.dim() > 0 and named.get("dtype") is None


def _reduction(mlx_name: str) -> Function:
    def compute(mx: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return getattr(mx, mlx_name)(x, axis=_axes(dim), keepdims=keepdim)

    return compute


#: Operators under MLX's names for them: over everything, then over axes.
_WHOLE = {**dict.fromkeys(("sum", "mean", "prod"), F32), "any": BOOL, "all": BOOL, "max": INTS, "min": INTS}
_OVER_AXES = {
    "sum.dim_IntList": ("sum", F32),
    "mean.dim": ("mean", F32),
    "prod.dim_int": ("prod", F32),
    "amax": ("max", F32),
    "amin": ("min", F32),
    "any.dim": ("any", BOOL),
    "all.dim": ("all", BOOL),
    "logsumexp": ("logsumexp", F32),
}
for _name, _dtypes in _WHOLE.items():
    _op(_name, _dtypes, _no_dtype)(_unary(_name))
for _name, (_mlx_name, _dtypes) in _OVER_AXES.items():
    _op(_name, _dtypes, _has_axes)(_reduction(_mlx_name))


def _extreme(indices: str) -> Function:
    def compute(mx: Any, x: Any, dim: int, keepdim: bool = False) -> Any:
        place = getattr(mx, indices)(x, axis=dim, keepdims=True)
        found = mx.take_along_axis(x, place, axis=dim)
        place = place.astype(mx.int64)
        return (found, place) if keepdim else (mx.squeeze(found, dim), mx.squeeze(place, dim))

    return compute


def _place(mlx_name: str) -> Function:
    def compute(mx: Any, x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        return getattr(mx, mlx_name)(x, axis=dim, keepdims=keepdim).astype(mx.int64)

    return compute


for _name in ("max", "min"):
    _op(f"{_name}.dim", F32 | INTS, _has_axes)(_extreme(f"arg{_name}"))
    _op(f"arg{_name}", F32 | INTS, _has_axes)(_place(f"arg{_name}"))


def _spread(mlx_name: str) -> Function:
    def compute(mx: Any, x: Any, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
        ddof = 1 if correction is None else int(correction)
        return getattr(mx, mlx_name)(x, axis=_axes(dim), ddof=ddof, keepdims=keepdim)

    return compute


def _whole_correction(x: torch.Tensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> bool:
    whole = correction is None or float(correction).is_integer()
    dims = _axes(dim)
    places = range(x.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    count = math.prod(x.shape[place] for place in places)
    return x.dim() > 0 and whole and count > (1 if correction is None else correction)


for _name in ("var", "std"):
    _op(f"{_name}.correction", F32, _whole_correction)(_spread(_name))


@_op("count_nonzero.dim_IntList", ANY, lambda x, dim: x.dim() > 0 and bool(dim))
def _count_nonzero(mx: Any, x: Any, dim: Any) -> Any:
    return mx.sum((x != 0).astype(mx.int64), axis=tuple(dim))


def _common_norm(x: torch.Tensor, order: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> bool:
    return x.dim() > 0 and order in (1, 2, math.inf) and dtype is None


@_op("linalg_vector_norm", F32, _common_norm)
def _vector_norm(
    mx: Any, x: Any, order: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    axes = _axes([dim] if isinstance(dim, int) else dim)
    magnitude = mx.abs(x)
    if order == math.inf:
        return mx.max(magnitude, axis=axes, keepdims=keepdim)
    if order == 1:
        return mx.sum(magnitude, axis=axes, keepdims=keepdim)
    return mx.sqrt(mx.sum(magnitude * magnitude, axis=axes, keepdims=keepdim))


def _float_softmax(x: torch.Tensor, dim: int, half_to_float: bool) -> bool:
    return x.dim() > 0 and not half_to_float


@_op("_softmax", F32, _float_softmax)
def _softmax(mx: Any, x: Any, dim: int, half_to_float: bool) -> Any:
    return mx.softmax(x, axis=dim, precise=True)


@_op("_log_softmax", F32, _float_softmax)
def _log_softmax(mx: Any, x: Any, dim: int, half_to_float: bool) -> Any:
    return x - mx.logsumexp(x, axis=dim, keepdims=True)


# ------------------------------------------------------------------------------- along an axis
def _along(mlx_name: str) -> Function:
    return lambda mx, x, dim, **named: getattr(mx, mlx_name)(x, axis=dim)


for _name in ("cumsum", "cumprod", "logcumsumexp"):
    _op(_name, F32, _has_axes)(_along(_name))
_op("flip", ANY, _has_axes)(
    lambda mx, x, dims: x[
        tuple(slice(None, None, -1) if i in {d % x.ndim for d in dims} else slice(None) for i in range(x.ndim))
    ]
)


@_op("roll", ANY, _has_axes)
def _roll(mx: Any, x: Any, shifts: Any, dims: Any = ()) -> Any:
    return mx.roll(x, shifts, axis=tuple(dims)) if dims else mx.roll(x, shifts[0])


def _check_sortable(mx: Any, x: Any) -> None:
    """MLX sorts NaN elsewhere."""
    if mx.issubdtype(x.dtype, mx.floating) and mx.any(mx.isnan(x)).item():
        raise UnfitError("NaN")


@_op("sort", F32 | INTS, lambda x, dim=-1, descending=False: x.dim() > 0 and not descending)
def _sort(mx: Any, x: Any, dim: int = -1, descending: bool = False) -> Any:
    _check_sortable(mx, x)
    places = mx.argsort(x, axis=dim)
    return mx.take_along_axis(x, places, axis=dim), places.astype(mx.int64)


@_op("topk", F32, lambda x, k, dim=-1, largest=True, sorted=True: x.dim() > 0 and largest and k > 0)
def _topk(mx: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    _check_sortable(mx, x)
    _check_between(mx, mx.array(k), 1, x.shape[dim])
    places = mx.take(mx.argsort(-x, axis=dim), mx.arange(k), axis=dim)
    return mx.take_along_axis(x, places, axis=dim), places.astype(mx.int64)


@_op("kthvalue", F32, lambda x, k, dim=-1, keepdim=False: x.dim() > 0)
def _kthvalue(mx: Any, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    _check_sortable(mx, x)
    _check_between(mx, mx.array(k), 1, x.shape[dim])
    place = mx.take(mx.argsort(x, axis=dim), mx.array([k - 1]), axis=dim)
    found, place = mx.take_along_axis(x, place, axis=dim), place.astype(mx.int64)
    return (found, place) if keepdim else (mx.squeeze(found, dim), mx.squeeze(place, dim))


# ----------------------------------------------------------------------------------- indexing
def _check_between(mx: Any, index: Any, least: int, most: int) -> None:
    """MLX reads whatever lies beyond an array's end."""
    if mx.any(mx.logical_or(index < least, index > most)).item():
        raise UnfitError("an index is out of range")


def _picked(mx: Any, x: Any, index: Any, axis: int | None, wraps: bool = False) -> Any:
    """Elements along an axis, of the flat array for ``None``; whether negative indices count from the end."""
    size = x.size if axis is None else x.shape[axis]
    _check_between(mx, index, -size if wraps else 0, size - 1)
    return mx.take(x, index, axis=axis)


_op("index_select", ANY, lambda x, dim, index: x.dim() > 0)(
    lambda mx, x, dim, index: _picked(mx, x, index.reshape(-1), dim)
)
_op("take", ANY)(lambda mx, x, index: _picked(mx, x, index, None, wraps=True))


def _as_many(x: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False) -> bool:
    """MLX gathers along one axis; torch may gather from a part of the others."""
    others = [i for i in range(x.dim()) if i != dim % max(1, x.dim())]
    return x.dim() > 0 and x.dim() == index.dim() and all(x.shape[i] == index.shape[i] for i in others)


@_op("gather", ANY, _as_many)
def _gather(mx: Any, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    _check_between(mx, index, 0, x.shape[dim] - 1)
    return mx.take_along_axis(x, index, axis=dim)


_op("tril", REAL)(lambda mx, x, diagonal=0: mx.tril(x, diagonal))
_op("triu", REAL)(lambda mx, x, diagonal=0: mx.triu(x, diagonal))
_op("cat", ANY, lambda tensors, dim=0: _same(tensors) and all(tensor.dim() > 0 for tensor in tensors))(
    lambda mx, tensors, dim=0: mx.concatenate(list(tensors), axis=dim)
)
_op("repeat", ANY, lambda x, repeats: x.dim() > 0 and all(count > 0 for count in repeats))(
    lambda mx, x, repeats: mx.tile(x, tuple(repeats))
)


@_op("embedding", F32 | INTS, lambda weight, indices, *rest: weight.is_floating_point())
def _embedding(
    mx: Any, weight: Any, indices: Any, padding_idx: int = -1, scale_grad: bool = False, sparse: bool = False
) -> Any:
    return _picked(mx, weight, indices, 0)


@_op("constant_pad_nd", ANY, lambda x, pad, value=0: x.dim() > 0 and min(pad, default=0) >= 0 and _plain(x, value))
def _constant_pad(mx: Any, x: Any, pad: Sequence[int], value: float = 0) -> Any:
    widths = [(0, 0)] * (x.ndim - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return mx.pad(x, widths, constant_values=mx.array(value, x.dtype))


@_op("searchsorted.Tensor", F32, lambda bounds, x, **named: bounds.dim() == 1 and not any(named.values()))
def _searchsorted(mx: Any, bounds: Any, x: Any, **named: Any) -> Any:
    _check_sortable(mx, bounds)
    _check_sortable(mx, x)
    return mx.searchsorted(bounds, x).astype(mx.int64)


# ----------------------------------------------------------------------------- linear algebra
def _square(x: torch.Tensor, *values: Any, **named: Any) -> bool:
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2]


_op("mm bmm mv dot", F32)(lambda mx, x, y: x @ y)


def _added(product: Function) -> Function:
    """A product with a factor, added to something with a factor."""

    def compute(mx: Any, x: Any, one: Any, other: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        given = alpha * product(mx, one, other)
        return given if beta == 0 else beta * x + given

    return compute


_op("addmm baddbmm addmv", F32, _same)(_added(lambda mx, one, other: one @ other))
_op("addr", F32, _same)(_added(lambda mx, one, other: mx.outer(one, other)))


@_op("linalg_cross", F32, lambda x, y, *, dim=-1: _same(x, y) and x.shape == y.shape)
def _cross(mx: Any, x: Any, y: Any, *, dim: int = -1) -> Any:
    return mx.linalg.cross(x, y, axis=dim)


@_op("linalg_cholesky_ex", F32, _square)
def _cholesky(mx: Any, x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    given = mx.linalg.cholesky(x, upper=upper, stream=mx.cpu)
    if not mx.all(mx.diagonal(given, axis1=-2, axis2=-1) > 0).item():
        raise UnfitError("the matrix is not positive-definite, which MLX does not say")
    return given, mx.zeros(x.shape[:-2], mx.int32)


@_op("linalg_inv_ex", F32, _square)
def _inverse(mx: Any, x: Any, *, check_errors: bool = False) -> Any:
    return mx.linalg.inv(x, stream=mx.cpu), mx.zeros(x.shape[:-2], mx.int32)


@_op("_linalg_eigh", F32, _square)
def _eigh(mx: Any, x: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    if compute_v:
        return mx.linalg.eigh(x, UPLO=uplo, stream=mx.cpu)
    return mx.linalg.eigvalsh(x, UPLO=uplo, stream=mx.cpu), mx.zeros((0,))


def _eigen(function: str) -> Function:
    def compute(mx: Any, x: Any) -> Any:
        if not mx.all(mx.isfinite(x)).item():
            raise UnfitError("infinities or NaN, which torch refuses")
        return getattr(mx.linalg, function)(x, stream=mx.cpu)

    return compute


_op("linalg_eig", F32, _square)(_eigen("eig"))
_op("_linalg_eigvals", F32, _square)(_eigen("eigvals"))


@_op("linalg_qr", F32, lambda x, mode="reduced": x.dim() >= 2 and mode == "reduced" and x.shape[-2] >= x.shape[-1])
def _qr(mx: Any, x: Any, mode: str = "reduced") -> Any:
    return mx.linalg.qr(x, stream=mx.cpu)


@_op("_linalg_svd", F32, lambda x, full=False, compute=True, *, driver=None: compute and _square(x))
def _svd(mx: Any, x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    return mx.linalg.svd(x, stream=mx.cpu)


@_op("linalg_solve_triangular", F32, lambda a, b, *, upper, left=True, unitriangular=False: left and not unitriangular)
def _solve_triangular(mx: Any, a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    return mx.linalg.solve_triangular(a, b, upper=upper, stream=mx.cpu)


# --------------------------------------------------------------------------------------- Fourier
_NORMS = {0: lambda count: 1.0, 1: lambda count: 1 / math.sqrt(count), 2: lambda count: 1 / count}


@_op("_fft_c2c", C64)
def _fft(mx: Any, x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    count = math.prod(x.shape[i] for i in dim)
    given = mx.fft.fftn(x, axes=list(dim)) if forward else mx.fft.ifftn(x, axes=list(dim)) * count
    return given * _NORMS[normalization](count)


@_op("_fft_r2c", F32)
def _rfft(mx: Any, x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    count = math.prod(x.shape[i] for i in dim)
    given = mx.fft.rfftn(x, axes=list(dim)) if onesided else mx.fft.fftn(x.astype(mx.complex64), axes=list(dim))
    return given * _NORMS[normalization](count)


@_op("_fft_c2r", C64)
def _irfft(mx: Any, x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    sizes = [x.shape[i] for i in dim[:-1]] + [last_dim_size]
    count = math.prod(sizes)
    return mx.fft.irfftn(x, s=sizes, axes=list(dim)) * count * _NORMS[normalization](count)


# ------------------------------------------------------------------------ convolutions and pooling
def _convolvable(
    x: torch.Tensor, weight: torch.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> bool:  # fmt: skip
    return 3 <= x.dim() <= 5 and x.dim() == weight.dim() and not transposed and _same(x, weight)


@_op("convolution", F32, _convolvable)
def _convolution(
    mx: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    # MLX keeps the channels last.
    x, weight = mx.moveaxis(x, 1, -1), mx.moveaxis(weight, 1, -1)
    given = mx.conv_general(
        x, weight, stride=list(stride), padding=list(padding), kernel_dilation=list(dilation), groups=groups
    )
    return mx.moveaxis(given if bias is None else given + bias, -1, 1)


def _even_windows(x: torch.Tensor, output_size: Sequence[int]) -> bool:
    """Whether every window has the same size and none overlap."""
    return x.dim() >= 4 and all(n > 0 and size % n == 0 for size, n in zip(x.shape[-3:], output_size, strict=True))


@_op("_adaptive_avg_pool3d", F32, _even_windows)
def _adaptive_avg_pool3d(mx: Any, x: Any, output_size: Sequence[int]) -> Any:
    outer = x.shape[:-3]
    windows = [part for size, n in zip(x.shape[-3:], output_size, strict=True) for part in (n, size // n)]
    return mx.mean(x.reshape(*outer, *windows), axis=(-5, -3, -1))


@_op("channel_shuffle", F32, lambda x, groups: x.dim() >= 3 and groups > 0 and x.shape[1] % groups == 0)
def _channel_shuffle(mx: Any, x: Any, groups: int) -> Any:
    batch, channels, *rest = x.shape
    return mx.swapaxes(x.reshape(batch, groups, channels // groups, *rest), 1, 2).reshape(x.shape)
