"""Numbers at the edges: conversions out of range, overflow, division, shifts, half precision."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

from recorded.oracle.probing import probe, raises, ramp

INF, NAN = float("inf"), float("nan")
EDGES = (0.0, -0.0, 1.5, -1.5, 2.5, 300.7, -300.7, 3e9, -3e9, 1e19, -1e19, 1e30, INF, -INF, NAN)


def cuda(*values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values, device="cuda", dtype=dtype)


@probe()
def float_division_by_zero() -> Any:
    a, z = cuda(1.0, -1.0, 0.0, INF, NAN), torch.zeros(5, device="cuda")
    return [
        a / z,
        a // z,
        a % z,
        torch.fmod(a, z),
        a / -z,
        torch.div(a, z, rounding_mode="trunc"),
        a.reciprocal(),
        a % INF,
        a // INF,
        torch.remainder(a, -INF),
    ]


@probe()
def rounding() -> Any:
    x = cuda(0.5, 1.5, 2.5, -0.5, -1.5, 1e20, NAN, INF, 0.49999997)
    return [
        x.round(),
        x.floor(),
        x.ceil(),
        x.trunc(),
        x.frac(),
        (x[:6] * 1.005).round(decimals=2),
        x.round(decimals=-1),
        raises(lambda: cuda(15, 25).round(decimals=-1)),
        x.sign(),
        x.signbit(),
        x.half().round(),
        torch.frexp(x[:5]),
        torch.nextafter(x[:3], x[:3] + 1),
        torch.copysign(x, -x),
    ]


@probe()
def comparisons_of_not_numbers() -> Any:
    a, b = cuda(NAN, 1.0, INF, -0.0), cuda(NAN, NAN, INF, 0.0)
    return [
        a == b,
        a != b,
        a < b,
        a >= b,
        torch.maximum(a, b),
        torch.minimum(a, b),
        torch.fmin(a, b),
        a.clamp(min=0),
        torch.clamp(a, b, b),
        a.isclose(b),
        a.isclose(b, equal_nan=True),
        a.bool(),
        a.isfinite(),
        a.isposinf(),
        torch.equal(a, a),
        torch.allclose(b, b),
        F.relu(a),
        F.hardtanh(a),
        a.sgn(),
        torch.heaviside(a, b),
        torch.logical_and(a, b),
    ]


@probe()
def special_functions() -> Any:
    x = cuda(-2.5, -1.0, 0.0, 0.5, 1.0, 3.0, 50.0, NAN, INF)
    s = torch.special
    return [
        f(x)
        for f in (
            torch.lgamma,
            torch.digamma,
            torch.erf,
            torch.erfc,
            torch.erfinv,
            s.erfcx,
            s.ndtri,
            s.log_ndtr,
            s.i0,
            s.i0e,
            s.i1,
            s.i1e,
            s.bessel_j0,
            s.bessel_y1,
            s.exp2,
            torch.expm1,
            torch.log1p,
            s.entr,
            s.sinc,
            torch.logit,
            s.airy_ai,
            s.spherical_bessel_j0,
            s.modified_bessel_k0,
        )
    ] + [
        torch.polygamma(2, x),
        torch.special.zeta(x, x + 1),
        torch.special.xlogy(x, x),
        torch.igamma(x.abs(), x.abs()),
        torch.igammac(x.abs(), x.abs()),
        torch.special.multigammaln(x + 10, 2),
    ]


@probe()
def elementary_functions() -> Any:
    x = cuda(-1000.0, -1.0, -0.0, 1e-30, 0.5, 1.0, 88.8, 1000.0, INF, NAN)
    return [
        f(x)
        for f in (
            torch.exp,
            torch.log,
            torch.sqrt,
            torch.rsqrt,
            torch.sin,
            torch.cos,
            torch.tan,
            torch.tanh,
            torch.sigmoid,
            torch.asin,
            torch.acosh,
            torch.atanh,
            torch.sinh,
            torch.log2,
            torch.log10,
            torch.exp2,
            torch.square,
            F.softplus,
            F.gelu,
            F.silu,
            F.mish,
            F.elu,
            F.selu,
            F.celu,
            F.hardswish,
            F.hardsigmoid,
            F.logsigmoid,
            F.softsign,
            F.tanhshrink,
            F.relu6,
        )
    ] + [
        torch.atan2(x, x.flip(0)),
        torch.hypot(x, x.flip(0)),
        torch.logaddexp(x, x.flip(0)),
        torch.logaddexp2(x, x.flip(0)),
        torch.ldexp(x, x.sign().int()),
        torch.sinc(x),
        x ** x.flip(0),
    ]


@probe()
def sums_in_half_precision() -> Any:
    x = torch.full((4096,), 1.0, device="cuda")
    return [
        x.half().sum(),
        x.bfloat16().sum(),
        (x * 100).half().sum(),
        x.half().mean(),
        (x.half() * 0.1).sum(),
        (x.bfloat16() * 0.1).mean(),
        (x * 30).half().norm(),
        (x.half() * 0.01).cumsum(0)[-1],
        x.bfloat16().cumsum(0)[-1],
        x.half().prod(),
        (x * 60000).half().mean(),
        x.half().var(),
        (x * 300).half().var(),
        x.half() @ x.half(),
        x.bfloat16() @ x.bfloat16(),
        x.half().logsumexp(0),
        x.half().softmax(0)[0],
        x.half().std(),
    ]


@probe()
def products_in_half_precision() -> Any:
    a = ramp(8, 64).half()
    w = ramp(4, 64).half()
    return [
        a @ w.t(),
        F.linear(a.bfloat16(), w.bfloat16()),
        torch.addmm(torch.ones(8, 4, device="cuda").half(), a, w.t(), beta=0.5, alpha=2),
        torch.bmm(a[None], w.t()[None]),
        (a * 100) @ (w.t() * 100),
        torch.mv(a, w[0]),
    ]


@probe()
def statistics() -> Any:
    x = ramp(5, 7)
    one = cuda(3.0)
    return [
        x.std(),
        x.var(0),
        x.var(1, correction=0),
        x.std(0, keepdim=True),
        torch.var_mean(x, 1),
        one.std(),
        one.var(correction=0),
        x.median(),
        x.median(0),
        x.nanmean(),
        x.quantile(cuda(0.1, 0.5, 0.9)),
        x.quantile(0.3, dim=0, interpolation="nearest"),
        x.nanquantile(0.4),
        x.cov(),
        x.corrcoef(),
        torch.histc(x, 5),
        x.mode(0).values,
        x.renorm(2, 0, 3.0),
        x.norm(3),
        x.norm(INF),
        x.norm(0),
        torch.dist(x, x + 1, 3),
        x.logcumsumexp(0),
        x.cumprod(1),
        raises(lambda: x.quantile(2.0)),
        raises(lambda: x.quantile(x)),
    ]


@probe()
def ranges() -> Any:
    d = {"device": "cuda"}
    return [
        torch.arange(0, 1, 0.1, **d),
        torch.arange(5, **d),
        torch.arange(1.0, 2.0, 0.3, dtype=torch.float16, **d),
        torch.linspace(0, 1, 7, **d),
        torch.linspace(0, 10, 5, dtype=torch.int64, **d),
        torch.logspace(0, 2, 5, **d),
        torch.linspace(1, 0, 3, dtype=torch.bfloat16, **d),
        torch.eye(2, 3, **d),
        torch.full((2,), True, **d),
        torch.full((2,), 3, **d),
        torch.full((2,), 1j, **d),
        torch.tensor([1, 2.5], **d),
        torch.tensor([[True]], **d),
        torch.tensor([], **d),
        torch.scalar_tensor(3, **d),
        torch.range(0, 2, **d),
        torch.zeros((), **d),
        torch.hann_window(5, **d),
        torch.kaiser_window(4, **d),
        torch.blackman_window(4, periodic=False, **d),
        torch.triu_indices(2, 3, **d),
        torch.arange(3, dtype=torch.bool, **d) if False else None,
    ]


@probe()
def matrix_precision() -> Any:
    x = (ramp(64, 64) + 1e-3).double()
    single = x.float()
    exact = x @ x
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        fast = float(((single @ single).double() - exact).abs().max())
        conv = str(F.conv1d(single[None], single[:, :, None]).dtype)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = False
    full = float(((single @ single).double() - exact).abs().max())
    return [fast > 1e-3, full < 1e-3, conv]


@probe()
def promotion() -> Any:
    f, i, b, h = (
        torch.ones(2, device="cuda"),
        torch.ones(2, dtype=torch.int64, device="cuda"),
        torch.ones(2, dtype=torch.bool, device="cuda"),
        torch.ones(2, dtype=torch.float16, device="cuda"),
    )
    zero = torch.tensor(1.0, dtype=torch.float64, device="cuda")
    return [
        str(r.dtype)
        for r in (
            f + i,
            i + b,
            h + f,
            h + zero,
            i + zero,
            f + 1j,
            i / i,
            b + 1,
            i + 1.5,
            h * 2.5,
            h + h.bfloat16(),
            i.to(torch.uint8) + i.to(torch.int8),
            torch.result_type(h, 1.0) and h,
            b.sum(),
            i.mean(dtype=torch.float16),
            torch.where(b, f, i),
            torch.cat([f, i]),
            i.sum(),
            b.cumsum(0),
            i.sin(),
            b.exp(),
            i.sqrt(),
            torch.atan2(i, i),
            i.prod(),
            i.to(torch.int8).sum(),
        )
    ]


@probe()
def interpolation_and_sampling() -> Any:
    x = ramp(1, 1, 4, 4)
    grid = torch.tensor([[[[-1.0, -1.0], [0.3, -0.2], [1.5, 0.9]]]], device="cuda")
    return [
        F.interpolate(x, size=(2, 3), mode=m) for m in ("nearest", "bilinear", "bicubic", "area", "nearest-exact")
    ] + [
        F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
        F.interpolate(x, size=(2, 2), mode="bilinear", antialias=True),
        *[
            F.grid_sample(x, grid, mode=m, padding_mode=p, align_corners=False)
            for m in ("bilinear", "nearest", "bicubic")
            for p in ("zeros", "border", "reflection")
        ],
        F.affine_grid(torch.eye(2, 3, device="cuda")[None], (1, 1, 2, 2)),
        raises(lambda: F.interpolate(x, size=(2, 2), mode="linear")),
        raises(lambda: F.interpolate(x)),
        raises(lambda: F.grid_sample(x, grid.double())),
    ]


@probe()
def not_numbers_in_reductions() -> Any:
    x = cuda(1.0, NAN, -INF, INF)
    return [
        x.sum(),
        x.nansum(),
        x.mean(),
        x.prod(),
        x.max(),
        x.amin(),
        x.logsumexp(0),
        F.softmax(x, 0),
        F.softmax(cuda(-INF, -INF), 0),
        F.log_softmax(cuda(-INF, 0.0), 0),
        x.cumsum(0),
        x.cummax(0),
        x.norm(),
        x.any(),
        x.all(),
        x.count_nonzero(),
        x.argmin(),
        x.std(),
        F.layer_norm(x, (4,)),
        F.normalize(torch.zeros(3, device="cuda"), dim=0),
        F.cosine_similarity(torch.zeros(3, device="cuda"), torch.zeros(3, device="cuda"), dim=0),
    ]
