"""Kernels of the kinds that programs have besides."""

import math

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton_kinds import DEVICE, kind, off


@triton.jit
def entropy_kernel(logits, targets, losses, gradients, stride, classes, ignored, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    target = tl.load(targets + row)
    at = tl.arange(0, BLOCK)
    if target == ignored:
        tl.store(losses + row, 0.0)
        tl.store(gradients + row * stride + at, tl.zeros((BLOCK,), tl.float32), mask=at < classes)
        return
    values = tl.load(logits + row * stride + at, mask=at < classes, other=-float("inf")).to(tl.float32)
    top = tl.max(values, 0)
    total = tl.sum(tl.exp(values - top), 0)
    chosen = tl.load(logits + row * stride + target).to(tl.float32)
    tl.store(losses + row, top + tl.log(total) - chosen)
    gradient = tl.exp(values - top) / total - (at == target).to(tl.float32)
    tl.store(gradients + row * stride + at, gradient, mask=at < classes)


@kind
def cross_entropy():
    logits = torch.randn(9, 100, device=DEVICE, requires_grad=True)
    targets = torch.tensor([3, 99, 0, -100, 7, 50, 21, -100, 64], device=DEVICE)
    losses, gradients = torch.empty(9, device=DEVICE), torch.empty(9, 100, device=DEVICE)
    entropy_kernel[(9,)](logits.detach(), targets, losses, gradients, 100, 100, -100, BLOCK=128)
    wanted = torch.nn.functional.cross_entropy(logits, targets, reduction="none", ignore_index=-100)
    wanted.sum().backward()
    return max(off(losses, wanted.detach()), off(gradients, logits.grad))


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def rms_kernel(x, weight, out, n, eps, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * n + at, mask=at < n, other=0.0).to(tl.float32)
    scale = libdevice.rsqrt(tl.sum(values * values, 0) / n + eps)
    scaled = (values * scale).to(x.dtype.element_ty) * tl.load(weight + at, mask=at < n)
    tl.store(out + row * n + at, scaled, mask=at < n)


@kind
def rms_norm():
    x, weight = torch.randn(6, 90, device=DEVICE).bfloat16(), torch.randn(90, device=DEVICE).bfloat16()
    out = torch.empty_like(x)
    rms_kernel[(6,)](x, weight, out, 90, 1e-6)
    wide = x.float()
    wanted = (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6)).bfloat16() * weight
    return off(out, wanted, atol=1e-2, rtol=1e-2)


@triton.jit
def rotate(first, second, cos, sin):
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def rope_kernel(x, cos, sin, heads, HALF: tl.constexpr):
    position, head = tl.program_id(0), tl.program_id(1)
    at = tl.arange(0, HALF)
    base = x + (position * heads + head) * 2 * HALF
    c, s = tl.load(cos + position * HALF + at), tl.load(sin + position * HALF + at)
    first, second = rotate(tl.load(base + at), tl.load(base + HALF + at), c, s)
    tl.store(base + at, first)
    tl.store(base + HALF + at, second)


@kind
def rope():
    x = torch.randn(5, 3, 32, device=DEVICE)
    angles = torch.outer(torch.arange(5.0, device=DEVICE), 1e4 ** (-torch.arange(16, device=DEVICE) / 16))
    cos, sin = angles.cos(), angles.sin()
    first, second = x[..., :16], x[..., 16:]
    c, s = cos[:, None], sin[:, None]
    wanted = torch.cat([first * c - second * s, second * c + first * s], -1)
    rope_kernel[(5, 3)](x, cos, sin, 3, HALF=16)
    return off(x, wanted)


@triton.jit
def gelu_kernel(x, exact, tanh, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(exact + at, 0.5 * v * (1 + tl.math.erf(v * 0.7071067811865476)), mask=at < n)
    tl.store(tanh + at, 0.5 * v * (1 + libdevice.tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))), mask=at < n)


@kind
def gelu():
    x = torch.randn(500, device=DEVICE)
    exact, tanh = torch.empty_like(x), torch.empty_like(x)
    gelu_kernel[(2,)](x, exact, tanh, 500, BLOCK=256)
    function = torch.nn.functional.gelu
    return max(off(exact, function(x)), off(tanh, function(x, approximate="tanh")))


@triton.jit
def larger(a, ai, b, bi):
    first = (a > b) | ((a == b) & (ai < bi))
    return tl.where(first, a, b), tl.where(first, ai, bi)


@triton.jit
def reduce_kernel(x, sums, tops, places, running, N: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, N)
    v = tl.load(x + row * N + at)
    tl.store(sums + row, v.sum(axis=0))
    top, place = tl.reduce((v, at), 0, larger)
    tl.store(tops + row, top)
    tl.store(places + row, place.to(tl.int64))
    tl.store(running + row * N + at, tl.cumsum(v, 0))


@kind
def reductions():
    x = torch.randn(4, 64, device=DEVICE)
    sums, tops = torch.empty(2, 4, device=DEVICE).unbind()
    places, running = torch.empty(4, dtype=torch.int64, device=DEVICE), torch.empty_like(x)
    reduce_kernel[(4,)](x, sums, tops, places, running, N=64)
    top = x.max(1)
    pairs = ((sums, x.sum(1)), (tops, top.values), (places, top.indices), (running, x.cumsum(1)))
    return max(off(ours, theirs) for ours, theirs in pairs)


@triton.jit
def histogram_kernel(x, counts, largest, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=BINS)
    tl.atomic_add(counts + values, 1, mask=at < n)
    tl.atomic_max(largest, tl.max(tl.where(at < n, values, 0), 0))


@kind
def histogram():
    x = torch.randint(0, 16, (1000,), dtype=torch.int32, device=DEVICE)
    counts, largest = (
        torch.zeros(16, dtype=torch.int32, device=DEVICE),
        torch.zeros(1, dtype=torch.int32, device=DEVICE),
    )
    histogram_kernel[(8,)](x, counts, largest, 1000, BINS=16, BLOCK=128)
    exact = torch.equal(counts.long(), torch.bincount(x, minlength=16)) and largest.item() == x.max().item()
    return 0.0 if exact else math.inf
