"""Operators that select, combine and rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .entries import ANY, F32, INTS, REAL, check_between, check_sortable, op, plain, same


# ----------------------------------------------------------------------------------- indexing
def _picked(mx: Any, x: Any, index: Any, axis: int | None, wraps: bool = False) -> Any:
    """Return elements along an axis, of the flat array for ``None``; ``wraps``: negative indices count from the end."""
    size = x.size if axis is None else x.shape[axis]
    check_between(mx, index, -size if wraps else 0, size - 1)
    return mx.take(x, index, axis=axis)


op("index_select", ANY, lambda x, dim, index: x.dim() > 0)(
    lambda mx, x, dim, index: _picked(mx, x, index.reshape(-1), dim)
)
op("take", ANY)(lambda mx, x, index: _picked(mx, x, index, None, wraps=True))


def _as_many(x: torch.Tensor, dim: int, index: torch.Tensor, *, sparse_grad: bool = False) -> bool:
    """Return whether all other axes match: torch may gather from a part of them, MLX may not."""
    others = [i for i in range(x.dim()) if i != dim % max(1, x.dim())]
    return x.dim() > 0 and x.dim() == index.dim() and all(x.shape[i] == index.shape[i] for i in others)


@op("gather", ANY, _as_many)
def _gather(mx: Any, x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    check_between(mx, index, 0, x.shape[dim] - 1)
    return mx.take_along_axis(x, index, axis=dim)


op("tril", REAL)(lambda mx, x, diagonal=0: mx.tril(x, diagonal))
op("triu", REAL)(lambda mx, x, diagonal=0: mx.triu(x, diagonal))
op("cat", ANY, lambda tensors, dim=0: same(tensors) and all(tensor.dim() > 0 for tensor in tensors))(
    lambda mx, tensors, dim=0: mx.concatenate(list(tensors), axis=dim)
)
op("repeat", ANY, lambda x, repeats: x.dim() > 0 and all(count > 0 for count in repeats))(
    lambda mx, x, repeats: mx.tile(x, tuple(repeats))
)


@op("embedding", F32 | INTS, lambda weight, indices, *rest: weight.is_floating_point())
def _embedding(
    mx: Any, weight: Any, indices: Any, padding_idx: int = -1, scale_grad: bool = False, sparse: bool = False
) -> Any:
    return _picked(mx, weight, indices, 0)


@op("constant_pad_nd", ANY, lambda x, pad, value=0: x.dim() > 0 and min(pad, default=0) >= 0 and plain(x, value))
def _constant_pad(mx: Any, x: Any, pad: Sequence[int], value: float = 0) -> Any:
    widths = [(0, 0)] * (x.ndim - len(pad) // 2)
    widths += [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    return mx.pad(x, widths, constant_values=mx.array(value, x.dtype))


@op("searchsorted.Tensor", F32, lambda bounds, x, **named: bounds.dim() == 1 and not any(named.values()))
def _searchsorted(mx: Any, bounds: Any, x: Any, **named: Any) -> Any:
    check_sortable(mx, bounds)
    check_sortable(mx, x)
    return mx.searchsorted(bounds, x).astype(mx.int64)
