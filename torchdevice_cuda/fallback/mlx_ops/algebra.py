"""Linear algebra, Fourier transforms, convolutions and pooling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .entries import C64, F32, Function, UnfitError, op, same


# ----------------------------------------------------------------------------- linear algebra
def _square(x: torch.Tensor, *values: Any, **named: Any) -> bool:
    return x.dim() >= 2 and x.shape[-1] == x.shape[-2]


op("mm bmm mv dot", F32)(lambda mx, x, y: x @ y)


def _added(product: Function) -> Function:
    """Return a scaled product, added to a scaled input."""

    def compute(mx: Any, x: Any, one: Any, other: Any, *, beta: float = 1, alpha: float = 1) -> Any:
        given = alpha * product(mx, one, other)
        return given if beta == 0 else beta * x + given

    return compute


op("addmm baddbmm addmv", F32, same)(_added(lambda mx, one, other: one @ other))
op("addr", F32, same)(_added(lambda mx, one, other: mx.outer(one, other)))


@op("linalg_cross", F32, lambda x, y, *, dim=-1: same(x, y) and x.shape == y.shape)
def _cross(mx: Any, x: Any, y: Any, *, dim: int = -1) -> Any:
    return mx.linalg.cross(x, y, axis=dim)


@op("linalg_cholesky_ex", F32, _square)
def _cholesky(mx: Any, x: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    given = mx.linalg.cholesky(x, upper=upper, stream=mx.cpu)
    if not mx.all(mx.diagonal(given, axis1=-2, axis2=-1) > 0).item():
        raise UnfitError("the matrix is not positive-definite, which MLX does not say")
    return given, mx.zeros(x.shape[:-2], mx.int32)


@op("linalg_inv_ex", F32, _square)
def _inverse(mx: Any, x: Any, *, check_errors: bool = False) -> Any:
    return mx.linalg.inv(x, stream=mx.cpu), mx.zeros(x.shape[:-2], mx.int32)


@op("_linalg_eigh", F32, _square)
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


op("linalg_eig", F32, _square)(_eigen("eig"))
op("_linalg_eigvals", F32, _square)(_eigen("eigvals"))


@op("linalg_qr", F32, lambda x, mode="reduced": x.dim() >= 2 and mode == "reduced" and x.shape[-2] >= x.shape[-1])
def _qr(mx: Any, x: Any, mode: str = "reduced") -> Any:
    return mx.linalg.qr(x, stream=mx.cpu)


@op("_linalg_svd", F32, lambda x, full=False, compute=True, *, driver=None: compute and _square(x))
def _svd(mx: Any, x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None) -> Any:
    return mx.linalg.svd(x, stream=mx.cpu)


@op("linalg_solve_triangular", F32, lambda a, b, *, upper, left=True, unitriangular=False: left and not unitriangular)
def _solve_triangular(mx: Any, a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    return mx.linalg.solve_triangular(a, b, upper=upper, stream=mx.cpu)


# --------------------------------------------------------------------------------------- Fourier
_NORMS: dict[int, Callable[[int], float]] = {
    0: lambda count: 1.0,
    1: lambda count: 1 / math.sqrt(count),
    2: lambda count: 1 / count,
}


@op("_fft_c2c", C64)
def _fft(mx: Any, x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    count = math.prod(x.shape[i] for i in dim)
    given = mx.fft.fftn(x, axes=list(dim)) if forward else mx.fft.ifftn(x, axes=list(dim)) * count
    return given * _NORMS[normalization](count)


@op("_fft_r2c", F32)
def _rfft(mx: Any, x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    count = math.prod(x.shape[i] for i in dim)
    given = mx.fft.rfftn(x, axes=list(dim)) if onesided else mx.fft.fftn(x.astype(mx.complex64), axes=list(dim))
    return given * _NORMS[normalization](count)


@op("_fft_c2r", C64)
def _irfft(mx: Any, x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    sizes = [x.shape[i] for i in dim[:-1]] + [last_dim_size]
    count = math.prod(sizes)
    return mx.fft.irfftn(x, s=sizes, axes=list(dim)) * count * _NORMS[normalization](count)


# ------------------------------------------------------------------------ convolutions and pooling
def _convolvable(
    x: torch.Tensor, weight: torch.Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> bool:  # fmt: skip
    return 3 <= x.dim() <= 5 and x.dim() == weight.dim() and not transposed and same(x, weight)


@op("convolution", F32, _convolvable)
def _convolution(
    mx: Any, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int,
) -> Any:  # fmt: skip
    # MLX stores the channels last.
    x, weight = mx.moveaxis(x, 1, -1), mx.moveaxis(weight, 1, -1)
    given = mx.conv_general(
        x, weight, stride=list(stride), padding=list(padding), kernel_dilation=list(dilation), groups=groups
    )
    return mx.moveaxis(given if bias is None else given + bias, -1, 1)


def _even_windows(x: torch.Tensor, output_size: Sequence[int]) -> bool:
    """Return whether every window has the same size and none overlap."""
    return x.dim() >= 4 and all(n > 0 and size % n == 0 for size, n in zip(x.shape[-3:], output_size, strict=True))


@op("_adaptive_avg_pool3d", F32, _even_windows)
def _adaptive_avg_pool3d(mx: Any, x: Any, output_size: Sequence[int]) -> Any:
    outer = x.shape[:-3]
    windows = [part for size, n in zip(x.shape[-3:], output_size, strict=True) for part in (n, size // n)]
    return mx.mean(x.reshape(*outer, *windows), axis=(-5, -3, -1))


@op("channel_shuffle", F32, lambda x, groups: x.dim() >= 3 and groups > 0 and x.shape[1] % groups == 0)
def _channel_shuffle(mx: Any, x: Any, groups: int) -> Any:
    batch, channels, *rest = x.shape
    return mx.swapaxes(x.reshape(batch, groups, channels // groups, *rest), 1, 2).reshape(x.shape)
