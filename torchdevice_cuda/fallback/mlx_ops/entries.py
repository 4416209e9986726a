"""Entries of the table, their computation, and limits that several entries share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..mlx_arrays import mlx, to_mlx, to_torch

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
    """One operator: ``function(mx, *arguments)`` computes it for accepted tensors of these dtypes."""

    name: str
    function: Function
    dtypes: frozenset[torch.dtype]
    accepts: Callable[..., bool] | None = None


TABLE: dict[str, Entry] = {}


def op(
    names: str, dtypes: frozenset[torch.dtype], accepts: Callable[..., bool] | None = None
) -> Callable[[Function], Function]:
    """Add a function to the table under the names of operators."""

    def enter(function: Function) -> Function:
        for name in names.split():
            TABLE[name] = Entry(name, function, dtypes, accepts)
        return function

    return enter


class UnfitError(ValueError):
    """MLX computes these values differently from torch."""


def tensors(values: Iterable[Any]) -> list[torch.Tensor]:
    """Return the tensors among arguments, including those in lists."""
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors(value)
    return found


def fits(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether an entry computes these arguments as torch does."""
    found = tensors((*args, *kwargs.values()))
    if mlx() is None or not found:
        return False
    for tensor in found:
        if tensor.dtype not in entry.dtypes or tensor.layout is not torch.strided or tensor.numel() == 0:
            return False
    return entry.accepts is None or entry.accepts(*args, **kwargs)


def run(entry: Entry, *args: Any, **kwargs: Any) -> Any:
    """Compute an operator for CPU tensors; the results are CPU tensors."""
    mx = mlx()
    if mx is None:
        raise UnfitError("MLX is not there")
    named = {key: to_mlx(mx, value) for key, value in kwargs.items()}
    return to_torch(mx, entry.function(mx, *(to_mlx(mx, value) for value in args), **named))


def same(*values: Any, **named: Any) -> bool:
    """Return whether all tensors have one dtype: MLX's promotion differs from torch's."""
    return len({tensor.dtype for tensor in tensors((*values, *named.values()))}) == 1


def plain(*values: Any, **named: Any) -> bool:
    """Return whether the dtypes agree and no scalar promotes them, as a float beside integers would."""
    found = tensors((*values, *named.values()))
    integral = any(not tensor.is_floating_point() for tensor in found)
    numbers = [value for value in (*values, *named.values()) if isinstance(value, (int, float, complex))]
    promotes = any(isinstance(number, complex) or (integral and not isinstance(number, int)) for number in numbers)
    return same(*values, **named) and not promotes and not any(isinstance(number, bool) for number in numbers)


def unary(mlx_name: str) -> Function:
    """Return MLX's function of a name, for one array."""
    return lambda mx, x: getattr(mx, mlx_name)(x)


def has_axes(x: torch.Tensor, *values: Any, **named: Any) -> bool:
    """Return whether there is an axis, and the result has the array's own dtype."""
    return x.dim() > 0 and named.get("dtype") is None


def check_sortable(mx: Any, x: Any) -> None:
    """Raise for NaN, which MLX sorts to another position."""
    if mx.issubdtype(x.dtype, mx.floating) and mx.any(mx.isnan(x)).item():
        raise UnfitError("NaN")


def check_between(mx: Any, index: Any, least: int, most: int) -> None:
    """Raise for indices out of range, for which MLX reads beyond an array's end."""
    if mx.any(mx.logical_or(index < least, index > most)).item():
        raise UnfitError("an index is out of range")
