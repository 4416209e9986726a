"""Compute where formats, rounding and limits matter; the program was also run on a GPU.

Prints a JSON object; what is no number is null.
"""

import json
import math

import torch
import triton
import triton.language as tl

FOUND = {}


def told(name, tensor):
    values = tensor.cpu().tolist()
    shown = [None if v != v else str(v) if isinstance(v, float) and math.isinf(v) else v for v in values]
    FOUND[name] = shown


@triton.jit
def random_kernel(a, b, c, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(a + i, tl.rand(seed, i))
    tl.store(b + i, tl.randn(seed, i))
    tl.store(c + i, tl.randint(seed, i))


@triton.jit
def math_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, tl.exp(v))
    tl.store(o + N + i, tl.log(v + 10))
    tl.store(o + 2 * N + i, tl.sigmoid(v))
    tl.store(o + 3 * N + i, tl.math.erf(v))
    tl.store(o + 4 * N + i, tl.softmax(v))
    tl.store(o + 5 * N + i, tl.cumsum(v, 0))
    tl.store(o + 6 * N + i, tl.math.rsqrt(tl.abs(v)))
    tl.store(o + 7 * N + i, tl.exp2(v))
    tl.store(o + 8 * N + i, v % 0.7)
    tl.store(o + 9 * N + i, tl.sort(v))


@triton.jit
def integers_kernel(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)
    p = tl.load(a + i)
    q = tl.load(b + i)
    tl.store(o + i, p // q)
    tl.store(o + N + i, p % q)
    tl.store(o + 2 * N + i, p >> 1)
    tl.store(o + 3 * N + i, (p * 1000003).to(tl.int32))
    tl.store(o + 4 * N + i, (p * 1.7).to(tl.int32))
    tl.store(o + 5 * N + i, tl.atomic_add(o + 6 * N, 1))


@triton.jit
def narrow_kernel(x, ob, o5, o4, oi, ou, o8, oh, ol, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(ob + i, v.to(tl.bfloat16))
    tl.store(o5 + i, v.to(tl.float8e5))
    tl.store(o4 + i, v.to(tl.float8e4nv))
    tl.store(oi + i, v.to(tl.int32))
    tl.store(ou + i, v.to(tl.uint32))
    tl.store(o8 + i, v.to(tl.int8))
    tl.store(oh + i, v.to(tl.float16))
    tl.store(ol + i, v.to(tl.int64))


@triton.jit
def bfloat_kernel(a, b, o, r, N: tl.constexpr):
    i = tl.arange(0, N)
    p = tl.load(a + i)
    q = tl.load(b + i)
    tl.store(o + i, p + q)
    tl.store(o + N + i, p * q)
    tl.store(o + 2 * N + i, p - q)
    tl.store(o + 3 * N + i, p / q)
    tl.store(o + 4 * N + i, tl.maximum(p, q))
    tl.store(o + 5 * N + i, tl.where(p > q, p, q))
    tl.store(o + 6 * N + i, -p)
    tl.store(o + 7 * N + i, tl.abs(p))
    tl.store(o + 8 * N + i, p + 1.5)
    tl.store(o + 9 * N + i, tl.sum(p, 0))
    tl.store(o + 10 * N + i, tl.max(p, 0))
    tl.store(o + 11 * N + i, i.to(tl.bfloat16))
    tl.store(r + i, p.to(tl.int32))
    tl.atomic_add(o + 12 * N + i, p)


@triton.jit
def widen_kernel(a, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(a + i).to(tl.float32))


@triton.jit
def scaled_kernel(h, o, s, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(h + i) * s
    tl.store(o + i, v.to(tl.float32))


@triton.jit
def dot_kernel(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + i, tl.dot(tl.load(a + i), tl.load(b + i), input_precision="tf32"))


@triton.jit
def nan_kernel(a, o, N: tl.constexpr):
    v = tl.load(a + tl.arange(0, N))
    tl.store(o + 0, tl.max(v, 0))
    tl.store(o + 1, tl.min(v, 0))
    tl.store(o + 2, tl.argmax(v, 0).to(tl.float32))
    tl.store(o + 3, tl.argmin(v, 0).to(tl.float32))
    tl.store(o + 4, tl.maximum(tl.load(a), 1.0))
    tl.store(o + 5, tl.minimum(tl.load(a), 1.0))
    tl.store(o + 6, tl.sum(v, 0))
    tl.store(o + 7, tl.maximum(tl.load(a), 1.0, propagate_nan=tl.PropagateNan.ALL))


def empty(size, dtype=torch.float32, value=0):
    return torch.full((size,), value, dtype=dtype, device="cuda")


def main():
    a, b, c = empty(16), empty(16), empty(16, torch.int32)
    random_kernel[(1,)](a, b, c, 123, N=16)
    told("rand", a), told("randn", b), told("randint", c)
    o = empty(160)
    math_kernel[(1,)](torch.linspace(-3, 3, 16, device="cuda"), o, N=16)
    told("math", o)
    p = torch.tensor([7, -7, 7, -7, 2**31 - 1, -(2**31), 5, 0] * 2, dtype=torch.int32, device="cuda")
    q = torch.tensor([2, 2, -2, -2, 3, 3, 7, 1] * 2, dtype=torch.int32, device="cuda")
    o = empty(112, torch.int32)
    integers_kernel[(1,)](p, q, o, N=16)
    told("ints", o)
    inf, nan = math.inf, math.nan
    numbers = [
        1.9999,
        -1.9999,
        1.00390625,
        1.01171875,
        3.4e38,
        448.0,
        464.0,
        480.0,
        1e6,
        -1e6,
        nan,
        inf,
        -inf,
        3e9,
        -3e9,
        5e9,
    ]
    numbers += [
        1e-9,
        0.0009765625,
        0.00146484375,
        61440.0,
        65519.0,
        65520.0,
        57344.0,
        60000.0,
        300.7,
        -300.7,
        200.5,
        -0.0,
    ]
    numbers += [2.5, 3.5, 1e-40, 1e20]
    kinds = {
        "bf16": torch.bfloat16, "e5m2": torch.float8_e5m2, "e4m3": torch.float8_e4m3fn, "i32": torch.int32,
        "u32": torch.uint32, "i8": torch.int8, "f16": torch.float16, "i64": torch.int64,
    }  # fmt: skip
    outs = {name: torch.zeros(32, dtype=dtype, device="cuda") for name, dtype in kinds.items()}
    narrow_kernel[(1,)](torch.tensor(numbers, device="cuda"), *outs.values(), N=32)
    for name, out in outs.items():
        as_bits = {2: torch.int16, 1: torch.uint8}[out.element_size()] if out.dtype.is_floating_point else out.dtype
        told(f"narrow {name}", out.view(as_bits))
    a = ((torch.arange(16, device="cuda") * 37 % 17 - 8) / 7).to(torch.bfloat16)
    b = ((torch.arange(16, device="cuda") * 11 % 13 - 6.5) / 3).to(torch.bfloat16)
    o, r = empty(13 * 16, torch.bfloat16, 1), empty(16, torch.int32)
    bfloat_kernel[(1,)](a, b, o, r, N=16)
    told("bf16 arithmetic", o), told("bf16 to int", r)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        o = empty(256)
        widen_kernel[(1,)](torch.arange(256, dtype=torch.uint8, device="cuda").view(dtype), o, N=256)
        told(str(dtype).removeprefix("torch."), o)
    o = empty(16)
    scaled_kernel[(1,)]((torch.arange(16, device="cuda") / 3).half(), o, 0.1, N=16)
    told("scalar", o)
    generator = torch.Generator().manual_seed(0)
    [torch.randn(16, 16, generator=generator) for _ in range(2)]
    a, b = (torch.randn(64, 64, generator=generator).cuda() for _ in range(2))
    o = empty(64 * 64)
    dot_kernel[(1,)](a, b, o, N=64)
    told("tf32", o[:12])
    o = empty(8)
    nan_kernel[(1,)](torch.tensor([math.nan, 3, 1, 3, -5, 2, -5, 0], device="cuda"), o, N=8)
    told("nans", o)


main()
print(json.dumps(FOUND))
