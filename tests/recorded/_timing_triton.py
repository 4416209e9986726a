"""Triton's kernels that `timing_layouts.py` times."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from recorded._timing_calls import Call


@triton.jit
def add(x, y, z, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    known = at < n
    tl.store(z + at, tl.load(x + at, known) + tl.load(y + at, known), known)


@triton.jit
def softmax(x, z, width: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * width + tl.arange(0, width)
    row = tl.load(x + at)
    row = tl.exp(row - tl.max(row, 0))
    tl.store(z + at, row / tl.sum(row, 0))


def make_triton(name: str, n: int) -> Call:
    """Make a kernel over n elements."""
    x, y, z = (torch.randn(n, device="cuda") for _ in range(3))
    if name == "add":
        return lambda: add[(triton.cdiv(n, 1024),)](x, y, z, n, block=1024)
    return lambda: softmax[(n // 1024,)](x, z, width=1024)
