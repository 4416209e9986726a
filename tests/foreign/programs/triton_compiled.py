"""Kernels of the program inside graphs that torch.compile makes; each is compared with torch."""

import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def add(x, y, o, n, s, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + s * tl.load(y + i, mask=m), mask=m)


@triton.autotune(configs=[triton.Config({"B": 64}, num_warps=2), triton.Config({"B": 128})], key=["n"])
@triton.jit
def tuned(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    m = i < n
    tl.store(o + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


def f(x, y):
    o = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 256),)](x.sin(), y, o, x.numel(), 2.0, B=256)
    return o * 2 + 1


def g(x, y):
    o = torch.empty_like(x)
    tuned[lambda m: (triton.cdiv(x.numel(), m["B"]),)](x, y, o, x.numel())
    return o.cos()


def h(x, y):
    add[(4,)](x, y, x, x.numel(), 3.0, B=256)
    return x + 1


@triton_op("mine::addop", mutates_args={})
def addop(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    o = torch.empty_like(x)
    wrap_triton(add)[(4,)](x, y, o, x.numel(), 1.0, 256)
    return o


x = torch.randn(1000, device="cuda")
y = torch.randn(1000, device="cuda")
torch.testing.assert_close(torch.compile(f, fullgraph=True)(x, y), (x.sin() + 2 * y) * 2 + 1)
print("f")
torch.testing.assert_close(
    torch.compile(f, fullgraph=True, dynamic=True)(x[:777], y[:777]), ((x.sin() + 2 * y) * 2 + 1)[:777]
)
print("dynamic")
torch.testing.assert_close(torch.compile(g, fullgraph=True)(x, y), (x + y).cos())
print("tuned")
z = x.clone()
torch.testing.assert_close(torch.compile(h, fullgraph=True)(z, y), x + 3 * y + 1)
torch.testing.assert_close(z, x + 3 * y)
print("mutates")
torch.testing.assert_close(addop(x, y), x + y)
torch.testing.assert_close(torch.compile(lambda a, b: addop(a, b) * 2, fullgraph=True)(x, y), (x + y) * 2)
print("triton_op")
for b in ("eager", "aot_eager"):
    torch.testing.assert_close(torch.compile(f, fullgraph=True, backend=b)(x, y), (x.sin() + 2 * y) * 2 + 1)
print("backends")


class Fn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        o = torch.empty_like(x)
        add[(4,)](x, y, o, x.numel(), 2.0, B=256)
        return o

    @staticmethod
    def backward(ctx, g):
        o = torch.empty_like(g)
        add[(4,)](g, g, o, g.numel(), 1.0, B=256)
        return o, g * 2


xr = x.clone().requires_grad_()
torch.compile(lambda a, b: (Fn.apply(a, b) ** 2).sum(), fullgraph=True)(xr, y).backward()
torch.testing.assert_close(xr.grad, 4 * (x + 2 * y))
print("autograd")
torch.testing.assert_close(torch.compile(lambda a: a.sin() + a.cos())(x), x.sin() + x.cos())
print("plain")
print(x.device)
