"""Run kernels whose source is changed before a launch, and loops with counters; print a JSON object."""

import json

import torch
import triton
import triton.language as tl


@triton.jit
def counting(x, n, wide):
    for i in range(n):
        tl.store(x + i, i.to(tl.int64) * 2)
    for i in tl.range(2, 4):
        tl.store(x + i, (i * 1000000007).to(tl.int64))  # of 32 bits
    for i in range(wide, wide + 1):
        tl.store(x + 4, i * 1000000007)  # of 64
    for i in tl.static_range(1):
        tl.store(x + i, 7)


def count():
    x = torch.zeros(5, dtype=torch.int64, device="cuda")
    counting[(1,)](x, 4, 2**40)
    return x.tolist()


@triton.jit
def edited(x):
    tl.store(x, VALUE)  # noqa: F821


def edit():
    found = []
    for value in (3, 4):
        kernel = triton.JITFunction(edited.fn)
        kernel._unsafe_update_src(kernel.src.replace("VALUE", str(value)))
        x = torch.zeros(1, device="cuda")
        kernel[(1,)](x)
        found.append(x.item())
    return found


print(json.dumps({"counted": count(), "edited": edit()}))
