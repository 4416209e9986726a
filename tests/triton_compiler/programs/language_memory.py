"""Kernels of memory: masks, strides, indices, atomic operations, block pointers, grids, arguments."""

import torch
import triton
import triton.language as tl
from cases import case, fill
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def masks_kernel(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    base = o
    tl.store(base + i, tl.load(x + i, mask=i < n, other=-1.0), mask=i < n + 2)
    base += N
    tl.store(base + i, tl.load(x + i, mask=i >= n, other=3.0))
    base += N
    tl.store(base + i, tl.load(x + i, mask=i % 3 == 0, other=5.0), mask=i % 2 == 0)
    base += N
    tl.store(base + i, tl.load(x + i, mask=(i < n) & (i > 2), other=7.0), mask=(i < n) | (i > n + 4))
    base += N
    tl.store(base + i, tl.load(x + i, mask=(i * 0 + n) > 5, other=9.0), mask=(i * 0 + n) > 3)
    base += N
    tl.store(base + i, tl.load(x + i, mask=(i * i) < n, other=i.to(tl.float32)))
    base += N
    tl.store(base + i, tl.load(x + i, mask=n > i, other=2.0), mask=n >= i)


@case
def masks():
    found = []
    for n in (0, 1, 4, 6, 100):
        for size in (16, 128):
            x, o = fill(size), torch.zeros(7 * size, device="cuda")
            masks_kernel[(1,)](x, o, n, N=size)
            found.append(o)
    return found


@triton.jit
def masks_2d_kernel(x, o, m, n, stride, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    mask = (r < m) & (c < n)
    v = tl.load(x + r * stride + c, mask=mask, other=0.5)
    tl.store(o + r * N + c, v)
    tl.store(o + M * N + r * N + c, v * 2, mask=mask)
    tl.store(o + 2 * M * N + r * N + c, tl.load(x + r * stride + c, mask=r >= c, other=1.0), mask=r <= c)
    tl.store(o + 3 * M * N + r * N + c, tl.load(x + r * stride + c, mask=r < m, other=1.0))


@case
def masks_of_rows():
    found = []
    for m, n in ((16, 32), (5, 17), (0, 3), (3, 0), (16, 31)):
        x, o = fill(16 * 40), torch.zeros(4 * 16 * 32, device="cuda")
        masks_2d_kernel[(1,)](x, o, m, n, 40, M=16, N=32)
        found.append(o)
    return found


@triton.jit
def strides_kernel(x, o, sa, sb, so, M: tl.constexpr, N: tl.constexpr):
    r, c = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    v = tl.load(x + r * sa + c * sb)
    tl.store(o + r + c * M, v)
    tl.store(o + M * N + (M - 1 - r) * N + (N - 1 - c), v)
    tl.store(o + 2 * M * N + r * so + c * 2, v)
    tl.store(o + 5 * M * N + r * N + c, tl.load(x + ((r * sa + c * sb) % (M * N // 2))))
    tl.store(o + 6 * M * N + r * N + c, tl.load(x + (r + 3) % M * N + (c + 5) % N))


@case
def strides():
    found = []
    for a, b in ((32, 1), (1, 16), (2, 1)):
        x, o = fill(16 * 32), torch.zeros(8 * 16 * 32, device="cuda")
        strides_kernel[(1,)](x, o, a, b, 70, M=16, N=32)
        found.append(o)
    return found


@triton.jit
def indices_kernel(x, at, o, N: tl.constexpr):
    i = tl.arange(0, N)
    index = tl.load(at + i)
    tl.store(o + i, tl.load(x + index))
    tl.store(o + N + index, tl.load(x + i) * 2)
    tl.store(o + 2 * N + i, tl.load(x + index[:, None] * 0 + i[None, :]).sum(1) + tl.load(x + tl.load(at)))


@case
def indices():
    found = []
    for dtype in (torch.int32, torch.int64):
        x, at = fill(64), (torch.arange(64, device="cuda") * 37 % 64).to(dtype)
        o = torch.zeros(3 * 64, device="cuda")
        indices_kernel[(1,)](x, at, o, N=64)
        found.append(o)
    return found


@triton.jit
def in_place_kernel(x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x + i, tl.load(x + i) + 1)
    tl.store(x + 1 + i, tl.load(x + i) * 2)  # every element is read before one is written
    v = tl.load(x + i)
    w = tl.load(x + 5 + i)
    tl.store(x + 3 + i, w)
    tl.store(x + 2 * N + i, v + w)


@case
def overlapping():
    found = []
    for size in (16, 128):
        x = fill(3 * size + 8)
        in_place_kernel[(1,)](x, N=size)
        found.append(x)
    return found


@triton.jit
def atomics_kernel(x, a, b, c, f, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    v = tl.load(x + i)
    tl.atomic_add(a + i % 8, v)
    tl.atomic_max(b + i % 8, v)
    tl.atomic_min(b + 8 + i % 8, v)
    tl.atomic_and(b + 16 + i % 8, v)
    tl.atomic_or(b + 24 + i % 8, v)
    tl.atomic_xor(b + 32 + i % 8, v)
    tl.atomic_add(c, 1)
    tl.atomic_add(f + i % 4, v.to(tl.float32), mask=i % 3 == 0)
    tl.atomic_max(f + 4 + i % 4, v.to(tl.float32))
    tl.atomic_min(f + 8 + i % 4, v.to(tl.float32))


@case
def atomics():
    x = (torch.arange(256, device="cuda") * 37 % 101 - 50).int()
    a, b, c = (torch.zeros(size, dtype=torch.int32, device="cuda") for size in (8, 40, 1))
    f = torch.zeros(12, device="cuda")
    atomics_kernel[(4,)](x, a, b, c, f, N=64)
    return [a, b, c, f]


@triton.jit
def narrow_atomics_kernel(x, h, g, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(h + i % 4, tl.load(x + i).to(tl.float16))
    tl.atomic_add(g + i % 4, tl.load(x + i).to(tl.float64))


@case
def narrow_atomics():
    x = (torch.arange(64, device="cuda") % 7).float()
    h, g = torch.zeros(4, device="cuda").half(), torch.zeros(4, device="cuda").double()
    narrow_atomics_kernel[(1,)](x, h, g, N=64)
    return [h, g]


@triton.jit
def lock_kernel(lock, total, old, N: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, N)
    tl.store(total + i, tl.load(total + i) + tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)
    tl.store(old + tl.program_id(0), tl.atomic_cas(lock + 1, 5, 6))


@case
def locks():
    lock = torch.tensor([0, 5], dtype=torch.int32, device="cuda")
    total, old = torch.zeros(16, device="cuda"), torch.zeros(40, dtype=torch.int32, device="cuda")
    lock_kernel[(40,)](lock, total, old, N=16)
    return [total, old.sort().values]


@triton.jit
def pointers_kernel(addresses, o, N: tl.constexpr):
    i = tl.arange(0, N)
    p = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(o + tl.program_id(0) * N + i, tl.load(p + i))


@case
def pointers():
    tensors = [fill(16, start=start) for start in range(3)]
    addresses = torch.tensor([tensor.data_ptr() for tensor in tensors], device="cuda")
    o = torch.zeros(48, device="cuda")
    pointers_kernel[(3,)](addresses, o, N=16)
    return [o]


@triton.jit
def descriptors_kernel(x, o, m, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(o, shape=[m, n], strides=[n, 1], block_shape=[BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, column], source.load([row, column]) * 2)


@case
def descriptors():
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    x, o = fill(24 * 48), torch.zeros(24 * 48, device="cuda")
    descriptors_kernel[(2, 3)](x, o, 24, 48, BM=16, BN=16)
    return [o]


@triton.jit
def given_descriptors_kernel(source, target, BM: tl.constexpr, BN: tl.constexpr):
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, column], source.load([row, column]) * 2)


@case
def given_descriptors():
    x, o = fill(20 * 36).reshape(20, 36), torch.zeros(20, 36, device="cuda")
    source, target = (TensorDescriptor(t, [20, 36], [36, 1], [16, 16]) for t in (x, o))
    given_descriptors_kernel[(2, 3)](source, target, BM=16, BN=16)
    return [o]


@triton.jit
def grid_kernel(o, A: tl.constexpr):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    place = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x
    tl.store(o + place, x + 10 * y + 100 * z + tl.num_programs(2) * 1000 + A)


@case
def grids():
    o = torch.zeros(3 * 4 * 5, dtype=torch.int32, device="cuda")
    grid_kernel[(3, 4, 5)](o, A=7)
    return [o]


@triton.jit
def arguments_kernel(o, nothing, one, flag, small, large, negative, real, pair, N: tl.constexpr):
    value = one + flag + small + negative
    if nothing is None:
        value += 1000
    tl.store(o, value)
    tl.store(o + 1, (large >> 32).to(tl.int32))
    tl.store(o + 2, (real * 100).to(tl.int32))
    tl.store(o + 3, pair[0] + pair[1])
    tl.store(o + 4, N)


@case
def arguments():
    o = torch.zeros(5, dtype=torch.int32, device="cuda")
    arguments_kernel[(1,)](o, None, 1, True, 100, 77 << 32, -5, 2.5, (3, 4), N=9)
    return [o]


@triton.jit
def bool_kernel(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    flags = tl.load(x + i)
    tl.store(o + i, ~flags)
    tl.store(o + N + i, flags & (i > 3))


@case
def booleans():
    x, o = torch.arange(16, device="cuda") % 3 == 0, torch.zeros(32, dtype=torch.bool, device="cuda")
    bool_kernel[(1,)](x, o, N=16)
    return [o]
