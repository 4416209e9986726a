"""Arguments for the operators of MLX's table, and the comparison of their results with the CPU's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..fallback import mlx_ops
from ..fallback.operators import overload

#: Operators whose results are unique only up to signs or order: a function of the results is compared instead.
REBUILT: dict[str, Callable[[Any, Any], torch.Tensor]] = {
    "_linalg_eigh": lambda args, out: out[1] @ torch.diag_embed(out[0]) @ out[1].mH if out[1].numel() else out[0],
    "_linalg_svd": lambda args, out: out[0] @ torch.diag_embed(out[1]).to(out[0].dtype) @ out[2],
    "linalg_qr": lambda args, out: out[0] @ out[1],
    "linalg_eig": lambda args, out: args[0].to(out[1].dtype) @ out[1] - out[1] @ torch.diag_embed(out[0]),
    "_linalg_eigvals": lambda args, out: out.sum(-1),
    "sort": lambda args, out: out[0],
    "topk": lambda args, out: out[0],
    "kthvalue": lambda args, out: out[0],
}
#: The largest distance of a result from the CPU's: absolute below 1, relative above.
TOLERANCE = {torch.float32: 2e-4, torch.complex64: 2e-4, torch.float16: 5e-3, torch.bfloat16: 4e-2}
#: The columns of the speed check's figures, in seconds except for the first three.
COLUMNS = "operator, dtype, size class, CPU, MLX, GPU"
Arguments = tuple[Any, ...]


def flat(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a result."""
    return [value] if isinstance(value, torch.Tensor) else [item for part in value for item in flat(part)]


def square(count: int, batch: bool = False) -> torch.Tensor:
    """Return a symmetric matrix that can be inverted."""
    side = max(2, math.isqrt(count))
    made = torch.rand(side, side) + side * torch.eye(side)
    return (made + made.T)[None] if batch else made + made.T


def vector(count: int) -> torch.Tensor:
    """Return values between 0 and 1, without the ends."""
    return torch.rand(count) * 0.8 + 0.1


def matrix(count: int) -> torch.Tensor:
    """Return rows of 64 values."""
    return vector(count).reshape(-1, 64)


def mask(count: int) -> torch.Tensor:
    """Return a mask that is true as often as false."""
    return torch.rand(count) > 0.5


def integers(count: int) -> torch.Tensor:
    """Return integers from 1 to 99."""
    return torch.randint(1, 100, (count,))


#: Default calls of operators without arguments below: the first that fits is used.
USUAL: tuple[Callable[[int], Arguments], ...] = (
    lambda n: (vector(n),),
    lambda n: (vector(n), vector(n)),
    lambda n: (vector(n), 0.5),
    lambda n: (0.5, vector(n)),
    lambda n: (vector(n), vector(n), vector(n)),
    lambda n: (vector(n), vector(n), 0.5),
    lambda n: (mask(n),),
    lambda n: (mask(n), mask(n)),
    lambda n: (mask(n).reshape(-1, 64), 1),
    lambda n: (integers(n),),
    lambda n: (integers(n), integers(n)),
    lambda n: (vector(n).to(torch.complex64),),
)
#: Arguments of operators with other calls.
ARGUMENTS: dict[str, Callable[[int], Arguments]] = {
    "mm": lambda n: (square(n), square(n)),
    "bmm": lambda n: (square(n, True), square(n, True)),
    "mv": lambda n: (square(n), torch.rand(max(2, math.isqrt(n)))),
    "addmm": lambda n: (square(n), square(n), square(n)),
    "baddbmm": lambda n: (square(n, True), square(n, True), square(n, True)),
    "addmv": lambda n: (torch.rand(max(2, math.isqrt(n))), square(n), torch.rand(max(2, math.isqrt(n)))),
    "addr": lambda n: (square(n), torch.rand(max(2, math.isqrt(n))), torch.rand(max(2, math.isqrt(n)))),
    "linalg_cross": lambda n: (torch.rand(n // 3, 3), torch.rand(n // 3, 3)),
    "where.self": lambda n: (mask(n), vector(n), vector(n)),
    "masked_fill.Scalar": lambda n: (vector(n), mask(n), 0.5),
    "embedding": lambda n: (matrix(n), torch.arange(n // 64).flip(0)),
    "repeat": lambda n: (matrix(n), [2, 1]),
    "constant_pad_nd": lambda n: (matrix(n), [1, 1]),
    "count_nonzero.dim_IntList": lambda n: (matrix(n), [1]),
    **dict.fromkeys(
        ("linalg_cholesky_ex", "linalg_inv_ex", "_linalg_eigh", "linalg_eig", "_linalg_eigvals", "linalg_qr",
         "_linalg_svd", "tril", "triu"), lambda n: (square(n),)),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), lambda n: (matrix(n), 1)),
    **dict.fromkeys(("_softmax", "_log_softmax"), lambda n: (matrix(n), 1, False)),
    **dict.fromkeys(("sum.dim_IntList", "mean.dim", "logsumexp", "amax", "amin"), lambda n: (matrix(n), [1])),
    **dict.fromkeys(("max.dim", "min.dim", "prod.dim_int", "argmax", "argmin"), lambda n: (matrix(n), 1)),
    "topk": lambda n: (matrix(n), 8, 1),
    "kthvalue": lambda n: (matrix(n), 8, 1),
    "_fft_r2c": lambda n: (vector(n), [0], 0, True),
    "_fft_c2c": lambda n: (vector(n).to(torch.complex64), [0], 0, True),
    "_fft_c2r": lambda n: (vector(n).to(torch.complex64), [0], 2, n),
    "take": lambda n: (vector(n), torch.arange(n).flip(0)),
    "index_select": lambda n: (matrix(n), 0, torch.arange(n // 64).flip(0)),
    "gather": lambda n: (matrix(n), 1, torch.zeros(n // 64, 64, dtype=torch.int64)),
    "flip": lambda n: (matrix(n), [1]),
    "roll": lambda n: (matrix(n), [3], [1]),
    "cat": lambda n: ([matrix(n), matrix(n)],),
    "_adaptive_avg_pool3d": lambda n: (vector(n).reshape(-1, 8, 8, 8), [2, 2, 2]),
    "channel_shuffle": lambda n: (vector(n).reshape(1, 16, -1), 4),
    "convolution": lambda n: (
        torch.rand(1, 16, max(4, math.isqrt(n // 16)), max(4, math.isqrt(n // 16))), torch.rand(16, 16, 3, 3), None,
        [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
}  # fmt: skip


def arguments(name: str, count: int) -> Arguments | None:
    """Return arguments of an operator with about ``count`` elements; ``None`` if none are known."""
    entry = mlx_ops.TABLE[name]
    for make in (ARGUMENTS[name],) if name in ARGUMENTS else USUAL:
        made = make(count)
        try:
            if mlx_ops.fits(entry, made, {}):
                overload(name)(*made)
                return made
        except (RuntimeError, TypeError):
            continue
    return None
