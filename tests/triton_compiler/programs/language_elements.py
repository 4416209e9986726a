"""Kernels of single elements: arithmetic, comparisons, conversions, functions, random numbers."""

import torch
import triton
import triton.language as tl
from cases import case, fill
from triton.language.extra import libdevice


@triton.jit
def integers_kernel(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)
    p, q = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, p + q)
    tl.store(o + N + i, p - q)
    tl.store(o + 2 * N + i, p * q)
    tl.store(o + 3 * N + i, p // q)
    tl.store(o + 4 * N + i, p % q)
    tl.store(o + 5 * N + i, p & q)
    tl.store(o + 6 * N + i, p | q)
    tl.store(o + 7 * N + i, p ^ q)
    tl.store(o + 8 * N + i, ~p)
    tl.store(o + 9 * N + i, -p)
    tl.store(o + 10 * N + i, p >> 3)
    tl.store(o + 11 * N + i, p << 2)
    tl.store(o + 12 * N + i, tl.maximum(p, q))
    tl.store(o + 13 * N + i, tl.minimum(p, q))
    tl.store(o + 14 * N + i, tl.where(p > q, p, q))
    tl.store(o + 15 * N + i, (p >= q).to(p.dtype) + (p < q).to(p.dtype) * 2 + (p <= q).to(p.dtype) * 4)
    tl.store(o + 16 * N + i, (p == q).to(p.dtype) + (p != q).to(p.dtype) * 2)
    tl.store(o + 17 * N + i, tl.abs(p))


@case
def integers():
    found = []
    for dtype in (torch.int8, torch.int32, torch.int64, torch.uint8):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        a = torch.tensor([low, high, 0, 1, 7, 100, low + 1, high - 1] * 2, dtype=dtype, device="cuda")
        b = torch.tensor([3, 2, 5, 1, 3, 7, 1, high] * 2, dtype=dtype, device="cuda")
        o = torch.zeros(18 * 16, dtype=dtype, device="cuda")
        integers_kernel[(1,)](a, b, o, N=16)
        found.append(o)
    return found


@triton.jit
def floats_kernel(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)
    p, q = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, p + q)
    tl.store(o + N + i, p - q)
    tl.store(o + 2 * N + i, p * q)
    tl.store(o + 3 * N + i, p / q)
    tl.store(o + 4 * N + i, -p)
    tl.store(o + 5 * N + i, tl.maximum(p, q))
    tl.store(o + 6 * N + i, tl.minimum(p, q))
    tl.store(o + 7 * N + i, (p > q).to(p.dtype) + (p <= q).to(p.dtype) * 2 + (p != q).to(p.dtype) * 4)
    tl.store(o + 8 * N + i, tl.clamp(p.to(tl.float32), -1.0, 1.0).to(p.dtype))
    tl.store(o + 9 * N + i, tl.abs(p))
    tl.store(o + 10 * N + i, p * 2 + 1.5)


@case
def floats():
    found = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        a, b, o = fill(32, dtype), fill(32, dtype, 1), torch.zeros(11 * 32, dtype=dtype, device="cuda")
        floats_kernel[(1,)](a, b, o, N=32)
        found.append(o)
    return found


@triton.jit
def functions_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    positive = tl.abs(v) + 0.125
    tl.store(o + i, tl.exp(v))
    tl.store(o + N + i, tl.exp2(v))
    tl.store(o + 2 * N + i, tl.log(positive))
    tl.store(o + 3 * N + i, tl.log2(positive))
    tl.store(o + 4 * N + i, tl.sin(v))
    tl.store(o + 5 * N + i, tl.cos(v))
    tl.store(o + 6 * N + i, tl.sqrt(positive))
    tl.store(o + 7 * N + i, tl.math.rsqrt(positive))
    tl.store(o + 8 * N + i, tl.math.erf(v))
    tl.store(o + 9 * N + i, tl.floor(v))
    tl.store(o + 10 * N + i, tl.ceil(v))
    tl.store(o + 11 * N + i, tl.math.fma(v, v, positive))
    tl.store(o + 12 * N + i, tl.sigmoid(v))
    tl.store(o + 13 * N + i, tl.sqrt_rn(positive.to(tl.float32)).to(v.dtype))
    tl.store(o + 14 * N + i, tl.div_rn(v.to(tl.float32), positive.to(tl.float32)).to(v.dtype))


@case
def functions():
    found = []
    for dtype in (torch.float32, torch.float64):
        x, o = fill(64, dtype) * 5, torch.zeros(15 * 64, dtype=dtype, device="cuda")
        functions_kernel[(1,)](x, o, N=64)
        found.append(o)
    return found


@triton.jit
def limits_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, tl.exp(v))
    tl.store(o + N + i, tl.exp2(v))
    tl.store(o + 2 * N + i, tl.log(v))
    tl.store(o + 3 * N + i, tl.log2(v))
    tl.store(o + 4 * N + i, libdevice.tanh(v))


@case
def limits():
    inf, nan = float("inf"), float("nan")
    numbers = [0.0, -0.0, inf, -inf, nan, 1e-40, 3e38, 88.5, 89.5, -87.5, -103.0, -104.5, 127.9, 128.0, -149.0, 1.0]
    x, o = torch.tensor(numbers, device="cuda"), torch.zeros(5 * 16, device="cuda")
    limits_kernel[(1,)](x, o, N=16)
    return [o]


@triton.jit
def library_kernel(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v, w = tl.load(x + i), tl.load(y + i)
    p = tl.abs(v) + 0.5
    tl.store(o + i, libdevice.tanh(v))
    tl.store(o + N + i, libdevice.pow(p, w))
    tl.store(o + 2 * N + i, libdevice.fmod(v, p))
    tl.store(o + 3 * N + i, libdevice.log1p(p))
    tl.store(o + 4 * N + i, libdevice.expm1(v))
    tl.store(o + 5 * N + i, libdevice.atan2(v, w))
    tl.store(o + 6 * N + i, libdevice.hypot(v, w))
    tl.store(o + 7 * N + i, libdevice.copysign(v, w))
    tl.store(o + 8 * N + i, libdevice.round(v))
    tl.store(o + 9 * N + i, libdevice.trunc(v))
    tl.store(o + 10 * N + i, libdevice.rint(v))
    tl.store(o + 11 * N + i, libdevice.erfc(v))
    tl.store(o + 12 * N + i, libdevice.cbrt(v))
    tl.store(o + 13 * N + i, libdevice.asinh(v))
    tl.store(o + 14 * N + i, libdevice.tan(v))
    tl.store(o + 15 * N + i, libdevice.atan(v))
    tl.store(o + 16 * N + i, libdevice.cosh(v))
    tl.store(o + 17 * N + i, libdevice.isnan(v).to(v.dtype))
    tl.store(o + 18 * N + i, libdevice.finitef(v).to(v.dtype) if v.dtype == tl.float32 else v)
    tl.store(o + 19 * N + i, libdevice.lgamma(p))
    tl.store(o + 20 * N + i, libdevice.fma(v, w, p))
    tl.store(o + 21 * N + i, libdevice.nearbyint(v))


@case
def library():
    found = []
    for dtype in (torch.float32, torch.float64):
        x, y, o = fill(32, dtype), fill(32, dtype, 3), torch.zeros(22 * 32, dtype=dtype, device="cuda")
        library_kernel[(1,)](x, y, o, N=32)
        found.append(o)
    return found


@triton.jit
def bits_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, libdevice.popc(v))
    tl.store(o + N + i, libdevice.clz(v))
    tl.store(o + 2 * N + i, libdevice.ffs(v))
    tl.store(o + 3 * N + i, v ^ 77)
    tl.store(o + 4 * N + i, tl.umulhi(v, v * 77))
    tl.store(o + 5 * N + i, v.to(tl.float32, bitcast=True).to(tl.int32, bitcast=True) + 1)
    tl.store(o + 6 * N + i, (v.to(tl.uint32) >> 5).to(tl.int32))
    tl.store(o + 7 * N + i, (v.to(tl.uint32) // 7).to(tl.int32))


@case
def bits():
    x = torch.tensor([0, 1, -1, 7, 1 << 30, -(1 << 31), 12345, -54321], dtype=torch.int32, device="cuda")
    o = torch.zeros(64, dtype=torch.int32, device="cuda")
    bits_kernel[(1,)](x, o, N=8)
    return [o]


@triton.jit
def convert_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty))


@case
def conversions():
    kinds = [torch.int8, torch.int64, torch.uint8, torch.bfloat16, torch.float64]
    numbers = [0.0, 1.0, -1.0, 100.4, -100.6, 1e4, 3.5, 2.5, -0.0, 120.0, 17.75, -3.0, 1.0, 65.0, 2.0, -7.0]
    found = []
    for source in kinds:
        for target in kinds:
            x = torch.tensor(numbers, device="cuda").to(source) if source != torch.uint8 else (
                torch.tensor(numbers, device="cuda").abs().to(source)
            )  # fmt: skip
            o = torch.zeros(16, dtype=target, device="cuda")
            convert_kernel[(1,)](x, o, N=16)
            found.append(o)
    return found


@case
def out_of_range():
    inf = float("inf")
    found = []
    for source in (torch.float32, torch.float64):
        x = torch.tensor([3e9, -3e9, 1e20, -1e20, inf, -inf, float("nan"), 255.9], dtype=source, device="cuda")
        for target in (torch.int8, torch.int32, torch.int64, torch.uint8):
            o = torch.zeros(8, dtype=target, device="cuda")
            convert_kernel[(1,)](x, o, N=8)
            found.append(o)
    return found


@triton.jit
def eight_kernel(x, a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(a + i, v.to(tl.float8e5))
    tl.store(b + i, v.to(tl.float8e4nv))
    tl.store(o + i, tl.load(a + i).to(tl.float32) + tl.load(b + i).to(tl.float32))
    tl.store(o + N + i, v.to(tl.float16, fp_downcast_rounding="rtz").to(tl.float32))


@case
def eight_bits():
    x = fill(64, torch.float32) * 30
    a, b = (
        torch.zeros(64, dtype=torch.float8_e5m2, device="cuda"),
        torch.zeros(64, dtype=torch.float8_e4m3fn, device="cuda"),
    )
    o = torch.zeros(128, device="cuda")
    eight_kernel[(1,)](x, a, b, o, N=64)
    return [a.view(torch.uint8), b.view(torch.uint8), o]


@triton.jit
def random_kernel(o, c, seed, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, tl.rand(seed, i))
    tl.store(o + 256 + i, tl.randn(seed, i))
    a, b, d, e = tl.randint4x(seed, i)
    tl.store(c + i, a ^ b)
    tl.store(c + 256 + i, d ^ e)


@case
def random_numbers():
    o, c = torch.zeros(512, device="cuda"), torch.zeros(512, dtype=torch.int32, device="cuda")
    random_kernel[(4,)](o, c, 77, N=64)
    return [o, c]


@triton.jit
def undefined_kernel(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)
    p, q = tl.load(a + i), tl.load(b + i)
    tl.store(o + i, p << q)
    tl.store(o + N + i, p >> q)
    tl.store(o + 2 * N + i, (p.to(tl.uint32) >> q.to(tl.uint32)).to(tl.int32))


@case
def wide_shifts():
    a = torch.tensor([1, -1, 77, -77] * 4, dtype=torch.int32, device="cuda")
    b = torch.tensor([0, 1, 31, 30, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16], dtype=torch.int32, device="cuda")
    o = torch.zeros(48, dtype=torch.int32, device="cuda")
    undefined_kernel[(1,)](a, b, o, N=16)
    return [o]
