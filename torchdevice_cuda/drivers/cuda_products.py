"""Matrix products with another result type than that of the inputs, which only CUDA has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_aten = torch.ops.aten
Tensor = torch.Tensor
Kernel = Callable[..., Any]
_NARROW = (torch.float16, torch.bfloat16)


def _check_types(a: Tensor, b: Tensor, dtype: torch.dtype) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError("input dtypes must be the same")
    if dtype is not a.dtype and not (dtype is torch.float32 and a.dtype in _NARROW):
        raise RuntimeError("out_dtype must be the same as input dtype or fp32 for fp16/bf16 inputs")


def _as(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x if x.dtype is dtype else _aten._to_copy(x, dtype=dtype)


def _product(multiply: Kernel) -> Kernel:
    """Return the kernel of ``mm`` or ``bmm``: the inputs are converted first."""

    def kernel(a: Tensor, b: Tensor, dtype: torch.dtype) -> Any:
        _check_types(a, b, dtype)
        return multiply(_as(a, dtype), _as(b, dtype))

    return kernel


def _sum(multiply_and_add: Kernel, argument: str) -> Kernel:
    """Return the kernel of ``addmm`` or ``baddbmm``; ``argument`` is the name of its first factor."""

    def kernel(self: Tensor, a: Tensor, b: Tensor, dtype: torch.dtype, *, beta: Any = 1, alpha: Any = 1) -> Any:
        _check_types(a, b, dtype)
        if self.dtype not in (dtype, a.dtype):
            raise RuntimeError(f"self dtype must match either out_dtype or {argument} dtype")
        return multiply_and_add(_as(self, dtype), _as(a, dtype), _as(b, dtype), beta=beta, alpha=alpha)

    return kernel


def _into(compute: Kernel) -> Kernel:
    """Return the kernel that writes the result of another into ``out``; the result type is the last argument."""

    def kernel(*args: Any, out: Tensor, **factors: Any) -> Any:
        made = compute(*args, **factors)
        if args[-1] is not out.dtype:
            raise RuntimeError("out_dtype must be the same as the dtype of the provided out tensor")
        return out.resize_(made.shape).copy_(made)

    return kernel


_RETURNING: dict[str, Kernel] = {
    "mm.dtype": _product(_aten.mm),
    "bmm.dtype": _product(_aten.bmm),
    "addmm.dtype": _sum(_aten.addmm, "mat1"),
    "baddbmm.dtype": _sum(_aten.baddbmm, "batch1"),
}
#: Kernels by the operator's name.
KERNELS: dict[str, Kernel] = {**_RETURNING, **{f"{name}_out": _into(kernel) for name, kernel in _RETURNING.items()}}
