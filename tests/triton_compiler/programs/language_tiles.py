"""Kernels of whole tiles: reductions, scans, shapes, products, control flow."""

import torch
import triton
import triton.language as tl
from cases import case, fill


@triton.jit
def largest(a, ai, b, bi):
    first = (a > b) | ((a == b) & (ai < bi))
    return tl.where(first, a, b), tl.where(first, ai, bi)


@triton.jit
def reduce_kernel(x, o, p, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    v = tl.load(x + r[:, None] * C + c[None, :])
    tl.store(o + c, tl.sum(v, 0))
    tl.store(o + C + r, tl.sum(v, 1))
    tl.store(o + 2 * C + c, tl.max(v, 0))
    tl.store(o + 3 * C + r, tl.min(v, 1))
    tl.store(p + c, tl.argmax(v, 0))
    tl.store(p + C + r, tl.argmin(v, 1))
    tl.store(p + 2 * C + r, tl.xor_sum((v * 100).to(tl.int32), 1))
    tl.store(o + 4 * C, tl.sum(v))
    value, index = tl.reduce((v, (r[:, None] * 0 + c[None, :])), 1, largest)
    tl.store(o + 5 * C + r, value)
    tl.store(p + 3 * C + r, index)
    tl.store(o + 6 * C + r, tl.softmax(v, dim=1).to(tl.float32).max(1))


@case
def reductions():
    found = []
    for rows, columns in ((8, 64), (16, 16), (4, 256)):
        x = fill(rows * columns)
        o, p = torch.zeros(7 * columns, device="cuda"), torch.zeros(4 * columns, dtype=torch.int32, device="cuda")
        reduce_kernel[(1,)](x, o, p, R=rows, C=columns)
        found += [o, p]
    return found


@triton.jit
def three_kernel(x, o, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    v = tl.load(x + (a * B + b) * C + c)
    i, j = tl.arange(0, A)[:, None], tl.arange(0, C)[None, :]
    tl.store(o + i * C + j, tl.sum(v, 1))
    tl.store(o + A * C + (a * B + b) * C + c, tl.cumsum(v, 1))


@case
def three_dimensions():
    x, o = fill(4 * 8 * 16), torch.zeros(4 * 16 + 4 * 8 * 16, device="cuda")
    three_kernel[(1,)](x, o, A=4, B=8, C=16)
    return [o]


@triton.jit
def product(a, b):
    return a * b


@triton.jit
def pair(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def scan_kernel(x, o, R: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :]
    v = tl.load(x + i)
    tl.store(o + i, tl.cumsum(v, 1))
    tl.store(o + R * C + i, tl.cumsum(v, 0))
    tl.store(o + 2 * R * C + i, tl.cumsum(v, 1, reverse=True))
    tl.store(o + 3 * R * C + i, tl.cumprod(v * 0.5, 1))
    tl.store(o + 4 * R * C + i, tl.associative_scan(v * 0.25, 0, product))
    a, b = tl.associative_scan((v * 0.3, v), 1, pair)
    tl.store(o + 5 * R * C + i, a + b)


@case
def scans():
    x, o = fill(4 * 32), torch.zeros(6 * 4 * 32, device="cuda")
    scan_kernel[(1,)](x, o, R=4, C=32)
    return [o]


@triton.jit
def sort_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(o + i, tl.sort(v))
    tl.store(o + N + i, tl.sort(v, descending=True))
    tl.store(o + 2 * N + i, tl.flip(v))


@case
def sorting():
    found = []
    for size in (128, 1024):
        x, o = fill(size), torch.zeros(3 * size, device="cuda")
        sort_kernel[(1,)](x, o, N=size)
        found.append(o)
    return found


@triton.jit
def shape_kernel(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    joined = tl.join(a, b)
    tl.store(o + i[:, None] * 2 + tl.arange(0, 2)[None, :], joined)
    left, right = tl.split(joined * 2)
    tl.store(o + 2 * N + i, left)
    tl.store(o + 3 * N + i, right)
    tl.store(o + 4 * N + tl.arange(0, 2 * N), tl.interleave(a, b))
    square = tl.reshape(a, (4, N // 4))
    at = tl.arange(0, 4)[:, None] * (N // 4) + tl.arange(0, N // 4)[None, :]
    tl.store(o + 6 * N + at, square * 3)
    turned = tl.trans(square)
    tl.store(o + 7 * N + tl.arange(0, N // 4)[:, None] * 4 + tl.arange(0, 4)[None, :], turned)
    cube = tl.permute(tl.reshape(a, (2, 2, N // 4)), (2, 0, 1))
    tl.store(o + 8 * N + i, tl.ravel(cube) if hasattr(tl, "never") else tl.reshape(cube, (N,)))
    tl.store(o + 9 * N + i, tl.sum(tl.broadcast_to(a[None, :], (4, N)), 0))
    tl.store(o + 10 * N + tl.arange(0, 2 * N), tl.sum(tl.reshape(tl.cat(a, b, can_reorder=True), (1, 2 * N)), 0) * 0)


@case
def shapes():
    x, y, o = fill(32), fill(32, start=5), torch.zeros(12 * 32, device="cuda")
    shape_kernel[(1,)](x, y, o, N=32)
    return [o]


@triton.jit
def compare(a, b):
    if a < b:
        return -1
    elif a > b:
        return 1
    else:
        return 0


@triton.jit
def map_kernel(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.map_elementwise(compare, tl.load(x + i), tl.load(y + i)))


def maps():
    """Return what the kernel computes, and what torch does: the interpreter has no such function."""
    x, y, o = fill(64), fill(64).roll(1), torch.zeros(64, dtype=torch.int32, device="cuda")
    y[::5] = x[::5]
    map_kernel[(1,)](x, y, o, N=64)
    return o, torch.sign(x - y).int()


@triton.jit
def gather_kernel(x, at, o, h, N: tl.constexpr):
    i = tl.arange(0, N)
    index = tl.load(at + i)
    tl.store(o + i, tl.gather(tl.load(x + i), index, 0))
    tl.store(h + tl.arange(0, 16), tl.histogram(index % 16, 16))


@case
def gathers():
    x, at = fill(64), (torch.arange(64, device="cuda") * 29 % 64).int()
    o, h = torch.zeros(64, device="cuda"), torch.zeros(16, dtype=torch.int32, device="cuda")
    gather_kernel[(1,)](x, at, o, h, N=64)
    return [o, h]


@triton.jit
def dot_kernel(a, b, c, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    z = tl.load(c + m[:, None] * N + n[None, :])
    tl.store(o + m[:, None] * N + n[None, :], tl.dot(x, y, z, input_precision=PRECISION))


@case
def products():
    found = []
    kinds = [
        (torch.float32, torch.float32, "ieee"),
        (torch.float32, torch.float32, "tf32"),
        (torch.float16, torch.float32, "ieee"),
        (torch.bfloat16, torch.float32, "ieee"),
        (torch.int8, torch.int32, "ieee"),
    ]
    for dtype, out, precision in kinds:
        for m, n, k in ((16, 16, 32), (64, 32, 64)):
            a, b = (fill(m * k) * 3).to(dtype), (fill(k * n, start=2) * 3).to(dtype)
            c, o = fill(m * n).to(out), torch.zeros(m * n, dtype=out, device="cuda")
            dot_kernel[(1,)](a, b, c, o, M=m, N=n, K=k, PRECISION=precision)
            found.append(o)
    return found


@triton.jit
def half_dot_kernel(a, b, o, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(o + i, tl.dot(tl.load(a + i), tl.load(b + i), out_dtype=tl.float16))


@case
def half_products():
    a, b, o = fill(256).half(), fill(256, start=1).half(), torch.zeros(256, device="cuda").half()
    half_dot_kernel[(1,)](a, b, o, N=16)
    return [o]


@triton.jit
def batched_dot_kernel(a, b, o, B: tl.constexpr, N: tl.constexpr):
    i = (tl.arange(0, B)[:, None, None] * N + tl.arange(0, N)[None, :, None]) * N + tl.arange(0, N)[None, None, :]
    tl.store(o + i, tl.dot(tl.load(a + i), tl.load(b + i), input_precision="ieee"))


@case
def batched_products():
    a, b, o = fill(4 * 256), fill(4 * 256, start=1), torch.zeros(4 * 256, device="cuda")
    batched_dot_kernel[(1,)](a, b, o, B=4, N=16)
    return [o]


@triton.jit
def scaled_kernel(a, sa, b, sb, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    group = tl.arange(0, K // 32)[None, :]
    x, y = tl.load(a + m * K + k[None, :]), tl.load(b + k[:, None] * N + n)
    s, t = tl.load(sa + m * (K // 32) + group), tl.load(sb + tl.arange(0, N)[:, None] * (K // 32) + group)
    tl.store(o + m * N + n, tl.dot_scaled(x, s, "e4m3", y, t, "e5m2"))
    tl.store(o + M * N + m * N + n, tl.dot_scaled(x, s, "e4m3", y, None, "e5m2"))


def scaled_products():
    """Return what the kernel computes, and what torch does: the interpreter has no such products."""
    m, n, k = 32, 64, 64
    a, b = fill(m * k).to(torch.float8_e4m3fn), fill(k * n, start=3).to(torch.float8_e5m2)
    sa = (torch.arange(m * k // 32, device="cuda") % 9 + 123).to(torch.uint8)
    sb = (torch.arange(n * k // 32, device="cuda") % 7 + 124).to(torch.uint8)
    o = torch.zeros(2 * m * n, device="cuda")
    scaled_kernel[(1,)](a, sa, b, sb, o, M=m, N=n, K=k)
    left = a.float().reshape(m, k // 32, 32) * torch.exp2(sa.float() - 127).reshape(m, -1, 1)
    right = b.float().reshape(k, n)
    scales = torch.exp2(sb.float() - 127).reshape(n, -1).repeat_interleave(32, 1).T
    wanted = [left.reshape(m, k) @ (right * scales), left.reshape(m, k) @ right]
    return o, torch.cat([part.reshape(-1) for part in wanted])


@triton.jit
def loops_kernel(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    total, swapped, k = tl.zeros((N,), tl.float32), v * 2, 0
    for j in range(0, n, 2):
        total += v * j
        v, swapped = swapped, v  # each becomes the other
        k += j
        for inner in range(j):
            total = total + inner
    while k > 3:
        k = k // 2
        total = total * 0.5
    for j in tl.static_range(3):
        total += j
    for j in range(n, 0, -3):
        total -= j
    tl.store(o + i, total)
    tl.store(o + N + i, v - swapped)
    tl.store(o + 2 * N, k * 1.0)


@case
def loops():
    found = []
    for n in (0, 1, 7):
        x, o = fill(32), torch.zeros(2 * 32 + 1, device="cuda")
        loops_kernel[(1,)](x, o, n, N=32)
        found.append(o)
    return found


@triton.jit
def branches_kernel(x, o, n, N: tl.constexpr):
    pid, i = tl.program_id(0), tl.arange(0, N)
    if pid == 3:
        return
    v = tl.load(x + i)
    if pid % 2 == 0:
        v = v * 2
        if n > 5:
            v += 1
    else:
        if pid > 4:
            tl.store(o + pid * N + i, v)
            return
        v = -v
    scale = 1.0 if n > 3 else 2.0
    tl.store(o + pid * N + i, v * scale)


@case
def branches():
    found = []
    for n in (2, 4, 6):
        x, o = fill(16), torch.zeros(8 * 16, device="cuda")
        branches_kernel[(8,)](x, o, n, N=16)
        found.append(o)
    return found


@triton.jit(noinline=True)
def called(a, b):
    return a * 2 + b


@triton.jit(noinline=True)
def writes(o, i, v):
    tl.store(o + i, v)


@triton.jit
def calls_kernel(x, o, N: tl.constexpr):
    a = called(tl.load(x), tl.load(x + N))
    writes(o, 0, a)
    writes(o, 1, called(a, a))


@case
def calls():
    x, o = fill(32), torch.zeros(32, device="cuda")
    calls_kernel[(1,)](x, o, N=16)
    return [o]


@triton.jit
def order_kernel(x, o, N: tl.constexpr):
    """Expressions that are used several times, and broadcasts of them."""
    i = tl.arange(0, N)
    v = tl.load(x + i)
    e = tl.exp(v * 0.25)
    f = e / tl.sum(e, 0)
    g = f[:, None] * f[None, :] + e[None, :]
    tl.store(o + i[:, None] * N + i[None, :], g * g - e[:, None])
    tl.store(o + N * N + i, tl.sum(g, 0) + tl.max(g, 1))


@case
def broadcasts():
    x, o = fill(32), torch.zeros(32 * 33, device="cuda")
    order_kernel[(1,)](x, o, N=32)
    return [o]
