"""Time compiled Triton kernels against PyTorch's own operators on the CPU.

python tools/bench/triton_kernels.py [--json] [--threads 1] [--only add,softmax,norm,matmul,attention,compile]
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
import triton
import triton.language as tl
from on_virtual import Row, begin, show
from torch.nn.functional import layer_norm, scaled_dot_product_attention


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(x + at, mask=mask) + tl.load(y + at, mask=mask), mask=mask)


@triton.jit
def softmax_kernel(x, out, stride, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * stride + at, powers / tl.sum(powers, 0), mask=at < columns)


@triton.jit
def norm_kernel(x, out, weight, bias, means, deviations, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    out += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, 0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        centered = tl.where(at < columns, tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32) - mean, 0.0)
        squares += centered * centered
    deviation = 1 / tl.sqrt(tl.sum(squares, 0) / columns + eps)
    tl.store(means + row, mean)
    tl.store(deviations + row, deviation)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = at < columns
        scale, shift = tl.load(weight + at, mask=mask), tl.load(bias + at, mask=mask)
        values = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(out + at, (values - mean) * deviation * scale + shift, mask=mask)


@triton.jit
def matmul_kernel(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid, across = tl.program_id(0), tl.cdiv(N, BN)
    row, column, inner = pid // across, pid % across, tl.arange(0, BK)
    rows, columns = (row * BM + tl.arange(0, BM)) % M, (column * BN + tl.arange(0, BN)) % N
    left = a + rows[:, None] * sam + inner[None, :] * sak
    right = b + inner[:, None] * sbk + columns[None, :] * sbn
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        x = tl.load(left, mask=inner[None, :] < K - k * BK, other=0.0)
        y = tl.load(right, mask=inner[:, None] < K - k * BK, other=0.0)
        total = tl.dot(x, y, total, input_precision="ieee")
        left += BK * sak
        right += BK * sbk
    rows, columns = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + scm * rows[:, None] + scn * columns[None, :], total.to(c.dtype.element_ty), mask=mask)


@triton.jit
def attention_kernel(queries, keys, values, out, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Causal attention of one head."""
    rows, inner = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(queries + rows[:, None] * D + inner[None, :])
    top = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, D], tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BM, BN):
        columns = start + tl.arange(0, BN)
        k = tl.load(keys + columns[:, None] * D + inner[None, :])
        v = tl.load(values + columns[:, None] * D + inner[None, :])
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(rows[:, None] >= columns[None, :], scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        powers = tl.exp(scores - higher[:, None])
        factor = tl.exp(top - higher)
        total = total * factor + tl.sum(powers, 1)
        sums = tl.dot(powers, v, sums * factor[:, None], input_precision="ieee")
        top = higher
    tl.store(out + rows[:, None] * D + inner[None, :], sums / total[:, None])


def find_best(call: Callable[[], object], times: int = 20) -> float:
    """Return milliseconds of processor time, the least of several."""
    call()
    spent = []
    for _ in range(times):
        start = time.process_time()
        call()
        spent.append((time.process_time() - start) * 1e3)
    return min(spent)


def compare(what: str, ours: Callable[[], Any], theirs: Callable[[], Any]) -> Row:
    """Return both times; `theirs` runs on tensors of the CPU."""
    mine, stock = find_best(ours), find_best(theirs)
    return {"what": what, "ours_ms": round(mine, 3), "theirs_ms": round(stock, 3), "ratio": round(mine / stock, 2)}


def make(*shape: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a tensor of the device and its copy on the CPU."""
    host = torch.randn(*shape).to(dtype)
    return host.cuda(), host


def bench_add() -> list[Row]:
    n = 1_000_000
    (x, hx), (y, hy), (out, hout) = make(n), make(n), make(n)
    return [compare("add of 1M", lambda: add_kernel[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024),
                    lambda: torch.add(hx, hy, out=hout))]  # fmt: skip


def compare_softmax(columns: int) -> Row:
    (x, hx), (out, _) = make(1024, columns), make(1024, columns)

    def ours() -> None:
        softmax_kernel[(1024,)](x, out, columns, columns, BLOCK=1024)

    return compare(f"softmax of 1024x{columns}", ours, lambda: torch.softmax(hx, 1))


def bench_softmax() -> list[Row]:
    return [compare_softmax(1024), compare_softmax(1000)]


def bench_norm() -> list[Row]:
    columns = 1500
    (x, hx), (out, _), (weight, hweight), (bias, hbias) = (
        make(1024, columns),
        make(1024, columns),
        make(columns),
        make(columns),
    )
    means, deviations = torch.empty(2, 1024, device="cuda").unbind()

    def ours() -> None:
        norm_kernel[(1024,)](x, out, weight, bias, means, deviations, columns, columns, 1e-5, BLOCK=2048)

    return [compare("layer norm of 1024x1500", ours, lambda: layer_norm(hx, (columns,), hweight, hbias, 1e-5))]


def compare_matmul(dtype: torch.dtype) -> Row:
    n, block = 512, 64
    (a, ha), (b, hb), (c, hc) = (make(n, n, dtype=dtype) for _ in range(3))
    grid = (triton.cdiv(n, block) ** 2,)

    def ours() -> None:
        matmul_kernel[grid](a, b, c, n, n, n, n, 1, n, 1, n, 1, BM=block, BN=block, BK=32)

    # PyTorch's own products of 16 bits are up to 300 times slower on some processors: the float32 one says more.
    wide = [tensor.float() for tensor in (ha, hb, hc)]
    name = str(dtype).removeprefix("torch.")
    return compare(f"matmul of 512 cubed, {name}", ours, lambda: torch.mm(wide[0], wide[1], out=wide[2]))


def bench_matmul() -> list[Row]:
    return [compare_matmul(dtype) for dtype in (torch.float32, torch.float16, torch.bfloat16)]


def bench_attention() -> list[Row]:
    n, width = 1024, 64
    (q, hq), (k, hk), (v, hv), (out, _) = (make(n, width) for _ in range(4))
    host = [tensor[None, None] for tensor in (hq, hk, hv)]

    def ours() -> None:
        attention_kernel[(n // 64,)](q, k, v, out, 0.125, D=64, BM=64, BN=64)

    return [compare("attention of 1024x64", ours, lambda: scaled_dot_product_attention(*host, is_causal=True))]


def bench_compile() -> list[Row]:
    """Time what is added to Triton's own compilation at a kernel's first launch."""
    from torchdevice_cuda.triton.compiler.launch import Compiled

    x = torch.ones(4096, device="cuda")
    text = softmax_kernel[(1,)](x, x, 1024, 1024, BLOCK=1024).asm["ttir"]
    spent = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"TORCHDEVICE_CACHE_DIR": folder}):
            start = count_processor_time()
            Compiled(text, "softmax_kernel", contracts=True)
            spent.append(count_processor_time() - start)
    return [{"what": "first launch of softmax", "s": round(min(spent), 3)}]


def count_processor_time() -> float:
    """Return seconds, with those of the compilers that were run."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


BENCHES = {
    "add": bench_add, "softmax": bench_softmax, "norm": bench_norm, "matmul": bench_matmul,
    "attention": bench_attention, "compile": bench_compile,
}  # fmt: skip


def main() -> None:
    options, only = begin(__doc__ or "")
    rows = [row for name, bench in BENCHES.items() if not only or name in only for row in bench()]
    show(rows, options)


if __name__ == "__main__":
    main()
