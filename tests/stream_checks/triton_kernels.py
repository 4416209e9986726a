"""Triton kernels of test_kernels.py."""

import torch
import triton
import triton.language as tl

SIZE = 4096


@triton.jit
def _twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def twice(x: torch.Tensor, y: torch.Tensor) -> None:
    """Write 2 * x to y."""
    _twice[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
