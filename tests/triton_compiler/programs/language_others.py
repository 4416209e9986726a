"""Functions that Triton's interpreter lacks: each returns what its kernel computes, and what torch does."""

import torch
import triton
import triton.language as tl
from cases import case, fill

OTHERS = []


def other(function):
    OTHERS.append(function)
    return function


@triton.jit
def order_pair(x, y):
    if x > y:
        return y, x
    return x, y


@triton.jit
def packed_map_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.map_elementwise(order_pair, tl.load(x + i), pack=2)[0])


@other
def packed_maps():
    x, o = fill(1024), torch.zeros(1024, device="cuda")
    packed_map_kernel[(1,)](x, o, N=1024)
    return o, x.reshape(-1, 2).sort(1).values.reshape(-1)


@triton.jit
def four_bits_kernel(a, sa, b, sb, o, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K // 2)
    group = tl.arange(0, K // 32)[None, :]
    x, y = tl.load(a + m * (K // 2) + k[None, :]), tl.load(b + k[:, None] * N + n)
    s, t = tl.load(sa + m * (K // 32) + group), tl.load(sb + tl.arange(0, N)[:, None] * (K // 32) + group)
    tl.store(o + m * N + n, tl.dot_scaled(x, s, "e2m1", y, t, "e2m1"))


@other
def products_of_four_bits():
    m, n, k = 32, 32, 64
    a, b = ((torch.arange(32 * k // 2, device="cuda") * 37 + start) % 256 for start in (0, 5))
    sa, sb = ((torch.arange(32 * k // 32, device="cuda") % 5 + start).to(torch.uint8) for start in (125, 126))
    o = torch.zeros(m * n, device="cuda")
    four_bits_kernel[(1,)](a.to(torch.uint8), sa, b.to(torch.uint8), sb, o, M=m, N=n, K=k)
    sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device="cuda")
    numbers = torch.cat([sizes, -sizes])
    left = torch.stack([numbers[a % 16], numbers[a // 16]], 1).reshape(m, k)
    right = torch.stack([numbers[b % 16].reshape(k // 2, n), numbers[b // 16].reshape(k // 2, n)], 1).reshape(k, n)
    scales = [torch.exp2(one.float() - 127).reshape(32, -1).repeat_interleave(32, 1) for one in (sa, sb)]
    return o, ((left * scales[0]) @ (right * scales[1].T)).reshape(-1)


@triton.jit
def updates_kernel(o, p, m, n, BM: tl.constexpr, BN: tl.constexpr):
    target = tl.make_tensor_descriptor(o, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    limits = tl.make_tensor_descriptor(p, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    target.atomic_add([row, 0], tl.full((BM, BN), 1.5, tl.float32))
    limits.atomic_max([row, 4], tl.full((BM, BN), 7, tl.int32))


@other
def updates_through_descriptors():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    o, p = fill(20 * 16), torch.arange(20 * 16, dtype=torch.int32, device="cuda") % 16
    wanted, most = o + 1.5, p.clone().reshape(20, 16)
    updates_kernel[(3,)](o, p, 20, 16, BM=8, BN=16)
    most[:, 4:] = most[:, 4:].clamp(min=7)
    return torch.cat([o, p.float()]), torch.cat([wanted, most.reshape(-1).float()])


@triton.jit
def flags_kernel(flags, payload, o):
    if tl.program_id(0) == 0:
        tl.atomic_poll(flags, 1)
        tl.store(o, tl.atomic_load(payload) + 1)
    else:
        tl.atomic_store(payload, 41)
        tl.atomic_store(flags, 1)


@other
def polls():
    flags, payload, o = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(3))
    flags_kernel[(2,)](flags, payload, o)
    return o, torch.full_like(o, 42)


@triton.jit(noinline=True)
def returns_early(x, n):
    if n > 3:
        return x + 1
    if n < 0:
        return x
    return x * 2


@triton.jit
def early_kernel(x, o, n):
    tl.store(o, returns_early(tl.load(x), n))


@case
def early_calls():
    x, o = fill(1), torch.zeros(3, device="cuda")
    for place, n in enumerate((7, -2, 2)):
        early_kernel[(1,)](x, o[place:], n)
    return [o]
