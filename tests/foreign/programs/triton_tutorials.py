"""Kernels of the kinds that Triton's tutorials have."""

import math

import torch
import triton
import triton.language as tl
from triton_kinds import DEVICE, kind, off


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@kind
def vector_add():
    x, y = torch.randn(2, 3001, device=DEVICE).unbind()
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, out, x.numel(), BLOCK=512)
    return off(out, x + y, atol=1e-7, rtol=0)


@triton.jit
def softmax_kernel(x, out, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, axis=0), mask=at < columns)


@kind
def fused_softmax():
    x = torch.randn(13, 781, device=DEVICE)
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](
        x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8
    )
    return off(out, torch.softmax(x, 1))


@triton.autotune(
    configs=[
        triton.Config({"M_": 32, "N_": 64, "K_": 32}, num_warps=4, num_stages=3),
        triton.Config({"M_": 32, "N_": 32, "K_": 32}, num_warps=2),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    cm,
    cn,
    M_: tl.constexpr,
    N_: tl.constexpr,
    K_: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    across = tl.cdiv(N, N_)
    block_m, block_n = tl.program_id(0) // across, tl.program_id(0) % across
    rows, columns, inner = block_m * M_ + tl.arange(0, M_), block_n * N_ + tl.arange(0, N_), tl.arange(0, K_)
    left = a + (rows % M)[:, None] * am + inner[None, :] * ak
    right = b + inner[:, None] * bk + (columns % N)[None, :] * bn
    total = tl.zeros((M_, N_), dtype=tl.float32)
    for k in range(tl.cdiv(K, K_)):
        p = tl.load(left, mask=inner[None, :] < K - k * K_, other=0.0)
        q = tl.load(right, mask=inner[:, None] < K - k * K_, other=0.0)
        total = tl.dot(p, q, total)
        left += K_ * ak
        right += K_ * bk
    if ACTIVATION == "leaky":
        total = tl.where(total >= 0, total, 0.01 * total)
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * cm + columns[None, :] * cn, total.to(c.dtype.element_ty), mask=inside)


def _matmul(dtype):
    a = torch.randn(70, 100, device=DEVICE).to(dtype)
    b = torch.randn(100, 90, device=DEVICE).to(dtype)
    c = torch.empty(70, 90, device=DEVICE, dtype=dtype)
    grid = lambda meta: (triton.cdiv(70, meta["M_"]) * triton.cdiv(90, meta["N_"]),)  # noqa: E731
    matmul_kernel[grid](a, b, c, 70, 90, 100, *a.stride(), *b.stride(), *c.stride(), ACTIVATION="leaky")
    wanted = torch.nn.functional.leaky_relu((a.double() @ b.double()), 0.01).to(dtype)
    return off(c, wanted, atol=1e-2 if dtype is torch.float16 else 8e-2, rtol=1e-2)


@kind
def matmul():
    return max(_matmul(torch.float16), _matmul(torch.bfloat16))


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.where(keep, value / (1 - p), 0.0), mask=at < n)


@kind
def low_memory_dropout():
    """The seed's numbers are those of the GPU, so these elements stay."""
    x = torch.ones(16, device=DEVICE)
    out = torch.empty_like(x)
    dropout_kernel[(1,)](x, out, x.numel(), 0.5, 123, BLOCK=16)
    kept = torch.tensor([0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 0, 1, 1, 1], dtype=torch.float32, device=DEVICE)
    return off(out, kept * 2)


@triton.jit
def norm_kernel(x, out, weight, bias, mean_, rstd_, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / n
    centred = tl.where(at < n, values - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
    tl.store(mean_ + row, mean)
    tl.store(rstd_ + row, rstd)
    w, b = tl.load(weight + at, mask=at < n), tl.load(bias + at, mask=at < n)
    tl.store(out + row * stride + at, centred * rstd * w + b, mask=at < n)


@triton.jit
def norm_backward_kernel(x, dy, dx, weight, dw, db, mean_, rstd_, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + row * stride + at, mask=inside, other=0.0)
    d = tl.load(dy + row * stride + at, mask=inside, other=0.0)
    w = tl.load(weight + at, mask=inside, other=0.0)
    mean, rstd = tl.load(mean_ + row), tl.load(rstd_ + row)
    hat = tl.where(inside, (v - mean) * rstd, 0.0)
    wd = w * d
    first, second = tl.sum(hat * wd, axis=0) / n, tl.sum(wd, axis=0) / n
    tl.store(dx + row * stride + at, (wd - (hat * first + second)) * rstd, mask=inside)
    tl.atomic_add(dw + at, d * hat, mask=inside)
    tl.atomic_add(db + at, d, mask=inside)


class LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        out, mean, rstd = torch.empty_like(x), torch.empty(len(x), device=DEVICE), torch.empty(len(x), device=DEVICE)
        block = triton.next_power_of_2(x.shape[1])
        norm_kernel[(len(x),)](x, out, weight, bias, mean, rstd, x.stride(0), x.shape[1], 1e-5, BLOCK=block)
        ctx.save_for_backward(x, weight, mean, rstd)
        return out

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        dx, dw, db = torch.empty_like(x), torch.zeros_like(weight), torch.zeros_like(weight)
        block = triton.next_power_of_2(x.shape[1])
        norm_backward_kernel[(len(x),)](
            x, dy.contiguous(), dx, weight, dw, db, mean, rstd, x.stride(0), x.shape[1], BLOCK=block
        )
        return dx, dw, db


@kind
def layer_norm():
    x, dy = torch.randn(2, 7, 150, device=DEVICE).unbind()
    weight, bias = torch.randn(2, 150, device=DEVICE).unbind()
    gradients = []
    for function in (LayerNorm.apply, lambda x, w, b: torch.nn.functional.layer_norm(x, (150,), w, b)):
        given = [t.clone().requires_grad_() for t in (x, weight, bias)]
        out = function(*given)
        out.backward(dy)
        gradients.append([out.detach(), *(t.grad for t in given)])
    return max(off(ours, theirs, atol=1e-4, rtol=1e-4) for ours, theirs in zip(*gradients, strict=True))


@triton.jit
def attention_kernel(
    q,
    k,
    v,
    out,
    stride_head,
    stride,
    length,
    scale,
    M: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    start, head = tl.program_id(0), tl.program_id(1)
    rows, dims = start * M + tl.arange(0, M), tl.arange(0, D)
    base = head * stride_head
    query = tl.load(q + base + rows[:, None] * stride + dims[None, :], mask=rows[:, None] < length, other=0.0)
    best = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    acc = tl.zeros((M, D), tl.float32)
    for begin in range(0, length, N):
        columns = begin + tl.arange(0, N)
        inside = columns < length
        key = tl.load(k + base + columns[None, :] * stride + dims[:, None], mask=inside[None, :], other=0.0)
        scores = tl.dot(query, key) * scale
        visible = inside[None, :]
        if CAUSAL:
            visible = visible & (rows[:, None] >= columns[None, :])
        scores = tl.where(visible, scores, -1.0e6)
        now = tl.maximum(best, tl.max(scores, 1))
        powers = tl.math.exp2((scores - now[:, None]) * 1.4426950408889634)
        rescale = tl.math.exp2((best - now) * 1.4426950408889634)
        total = total * rescale + tl.sum(powers, 1)
        value = tl.load(v + base + columns[:, None] * stride + dims[None, :], mask=inside[:, None], other=0.0)
        acc = acc * rescale[:, None] + tl.dot(powers.to(value.dtype), value)
        best = now
    acc = acc / total[:, None]
    tl.store(
        out + base + rows[:, None] * stride + dims[None, :], acc.to(out.dtype.element_ty), mask=rows[:, None] < length
    )


@kind
def fused_attention():
    worst = 0.0
    for causal in (False, True):
        q, k, v = torch.randn(3, 2, 75, 32, device=DEVICE).half().unbind()
        out = torch.empty_like(q)
        attention_kernel[(triton.cdiv(75, 32), 2)](
            q, k, v, out, q.stride(0), q.stride(1), 75, 1 / math.sqrt(32), M=32, N=32, D=32, CAUSAL=causal
        )
        wanted = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
        worst = max(worst, off(out, wanted.half(), atol=4e-3, rtol=4e-3))
    return worst


@triton.jit
def grouped_kernel(lefts, rights, outs, sizes, groups, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    """Multiplies matrices of different sizes, whose addresses are in a tensor."""
    tile = tl.program_id(0)
    before = 0
    for g in range(groups):
        m, n, k = tl.load(sizes + 3 * g), tl.load(sizes + 3 * g + 1), tl.load(sizes + 3 * g + 2)
        across = tl.cdiv(n, BLOCK)
        tiles = tl.cdiv(m, BLOCK) * across
        while tile >= before and tile < before + tiles:
            a = tl.load(lefts + g).to(tl.pointer_type(tl.float16))
            b = tl.load(rights + g).to(tl.pointer_type(tl.float16))
            c = tl.load(outs + g).to(tl.pointer_type(tl.float16))
            own = tile - before
            rows, columns = (own // across) * BLOCK + tl.arange(0, BLOCK), (own % across) * BLOCK + tl.arange(0, BLOCK)
            total = tl.zeros((BLOCK, BLOCK), tl.float32)
            for start in range(0, k, BLOCK):
                inner = start + tl.arange(0, BLOCK)
                p = tl.load(
                    a + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0
                )
                q = tl.load(
                    b + inner[:, None] * n + columns[None, :],
                    mask=(inner[:, None] < k) & (columns[None, :] < n),
                    other=0.0,
                )
                total += tl.dot(p, q)
            tl.store(
                c + rows[:, None] * n + columns[None, :],
                total.to(tl.float16),
                mask=(rows[:, None] < m) & (columns[None, :] < n),
            )
            tile += PROGRAMS
        before += tiles


@kind
def grouped_gemm():
    sizes = [(40, 33, 20), (16, 64, 50)]
    a = [torch.randn(m, k, device=DEVICE).half() for m, _, k in sizes]
    b = [torch.randn(k, n, device=DEVICE).half() for _, n, k in sizes]
    c = [torch.zeros(m, n, device=DEVICE).half() for m, n, _ in sizes]
    addresses = [torch.tensor([t.data_ptr() for t in group], device=DEVICE) for group in (a, b, c)]
    grouped_kernel[(4,)](*addresses, torch.tensor(sizes, dtype=torch.int32, device=DEVICE), 2, PROGRAMS=4, BLOCK=16)
    return max(off(z, (x.float() @ y.float()).half(), 2e-2, 1e-2) for x, y, z in zip(a, b, c, strict=True))
