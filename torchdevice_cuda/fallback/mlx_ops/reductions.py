"""Reductions, and operators along an axis."""

from __future__ import annotations

import math
from typing import Any

import torch

from .entries import ANY, BOOL, F32, INTS, Function, check_between, check_sortable, has_axes, op, unary


# ------------------------------------------------------------------------------------ reductions
def _axes(dim: Any) -> Any:
    """Return all axes for ``None`` and for an empty list, as torch does."""
    return None if dim is None or (isinstance(dim, (list, tuple)) and not dim) else dim


def _no_dtype(*values: Any, dtype: Any = None, **named: Any) -> bool:
    return dtype is None


def _reduction(mlx_name: str) -> Function:
    def compute(mx: Any, x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return getattr(mx, mlx_name)(x, axis=_axes(dim), keepdims=keepdim)

    return compute


#: MLX's names of operators: over everything, then over axes.
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
    op(_name, _dtypes, _no_dtype)(unary(_name))
for _name, (_mlx_name, _dtypes) in _OVER_AXES.items():
    op(_name, _dtypes, has_axes)(_reduction(_mlx_name))


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
    op(f"{_name}.dim", F32 | INTS, has_axes)(_extreme(f"arg{_name}"))
    op(f"arg{_name}", F32 | INTS, has_axes)(_place(f"arg{_name}"))


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
    op(f"{_name}.correction", F32, _whole_correction)(_spread(_name))


@op("count_nonzero.dim_IntList", ANY, lambda x, dim: x.dim() > 0 and bool(dim))
def _count_nonzero(mx: Any, x: Any, dim: Any) -> Any:
    return mx.sum((x != 0).astype(mx.int64), axis=tuple(dim))


def _common_norm(x: torch.Tensor, order: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> bool:
    return x.dim() > 0 and order in (1, 2, math.inf) and dtype is None


@op("linalg_vector_norm", F32, _common_norm)
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


@op("_softmax", F32, _float_softmax)
def _softmax(mx: Any, x: Any, dim: int, half_to_float: bool) -> Any:
    return mx.softmax(x, axis=dim, precise=True)


@op("_log_softmax", F32, _float_softmax)
def _log_softmax(mx: Any, x: Any, dim: int, half_to_float: bool) -> Any:
    return x - mx.logsumexp(x, axis=dim, keepdims=True)


# ------------------------------------------------------------------------------- along an axis
def _along(mlx_name: str) -> Function:
    return lambda mx, x, dim, **named: getattr(mx, mlx_name)(x, axis=dim)


for _name in ("cumsum", "cumprod", "logcumsumexp"):
    op(_name, F32, has_axes)(_along(_name))
op("flip", ANY, has_axes)(
    lambda mx, x, dims: x[
        tuple(slice(None, None, -1) if i in {d % x.ndim for d in dims} else slice(None) for i in range(x.ndim))
    ]
)


@op("roll", ANY, has_axes)
def _roll(mx: Any, x: Any, shifts: Any, dims: Any = ()) -> Any:
    return mx.roll(x, shifts, axis=tuple(dims)) if dims else mx.roll(x, shifts[0])


@op("sort", F32 | INTS, lambda x, dim=-1, descending=False: x.dim() > 0 and not descending)
def _sort(mx: Any, x: Any, dim: int = -1, descending: bool = False) -> Any:
    check_sortable(mx, x)
    places = mx.argsort(x, axis=dim)
    return mx.take_along_axis(x, places, axis=dim), places.astype(mx.int64)


@op("topk", F32, lambda x, k, dim=-1, largest=True, sorted=True: x.dim() > 0 and largest and k > 0)
def _topk(mx: Any, x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    check_sortable(mx, x)
    check_between(mx, mx.array(k), 1, x.shape[dim])
    places = mx.take(mx.argsort(-x, axis=dim), mx.arange(k), axis=dim)
    return mx.take_along_axis(x, places, axis=dim), places.astype(mx.int64)


@op("kthvalue", F32, lambda x, k, dim=-1, keepdim=False: x.dim() > 0)
def _kthvalue(mx: Any, x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    check_sortable(mx, x)
    check_between(mx, mx.array(k), 1, x.shape[dim])
    place = mx.take(mx.argsort(x, axis=dim), mx.array([k - 1]), axis=dim)
    found, place = mx.take_along_axis(x, place, axis=dim), place.astype(mx.int64)
    return (found, place) if keepdim else (mx.squeeze(found, dim), mx.squeeze(place, dim))
