"""Inline PTX and tensor cores in CUDA C++ (``assembly.cu``): results are those of arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from harness import CPU, STORED, VIRTUAL, child, outcome
from harness.cuda_programs import load_kernels

SOURCE = Path(__file__).with_name("assembly.cu")


KERNELS = ("single", "nans", "lanes", "block", "matrices", "products", "tiles", "raw_tiles")


def run(name: str, *arguments: Any, threads: int = 32, shared: int = 0) -> None:
    load_kernels(SOURCE.read_text(), *KERNELS)[name](
        grid=(1, 1, 1), block=(threads, 1, 1), args=list(arguments), shared_mem=shared
    )
    torch.cuda.synchronize()


def on_gpu(values: Any, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype).to("cuda")


@child(VIRTUAL, CPU, *STORED)
def test_statements_of_one_thread() -> None:
    words = [0, 1, 0x80000000, 0xFFFFFFFF, 12345]
    x = on_gpu([float(i) for i in range(5)], torch.float32)
    signed = on_gpu([w - (1 << 32) if w >> 31 else w for w in words], torch.int32)
    o, w = torch.zeros(8).to("cuda"), torch.zeros(20, dtype=torch.int32).to("cuda")
    run("single", x, signed, o, w, 5, threads=8)
    assert o.tolist() == [0.5, -2.5, 4.5, -6.5, 8.5, 0, 0, 0]
    made = [[v & 0xFFFFFFFF for v in row] for row in w.view(5, 4).tolist()]
    for word, row in zip(words, made, strict=True):
        total = word + word + (0xFFFFFFFF << 32) + (3 << 64)
        middle = (((total >> 32) & 0xFFFFFFFF) + 4 & 0xFFFFFFFF) ^ 1
        halves = (((word >> 16) + (word & 0xFFFF)) & 0xFFFF) << 16 | (word & 0xFFFF)
        assert row == [total & 0xFFFFFFFF, middle, total >> 64, halves]


@child(CPU)
def test_integers_of_nan_are_those_of_the_isa() -> None:
    out = torch.zeros(5, dtype=torch.int64).to("cuda")
    run("nans", on_gpu([float("nan")], torch.float64), out, threads=1)
    assert out.tolist() == [-(2**31), -(2**31), 0, -(2**63), 2**31]


@child(VIRTUAL, CPU, *STORED)
def test_lanes_exchange_and_vote() -> None:
    x = [(7 * i) % 101 for i in range(64)]
    out = torch.zeros(14 * 64, dtype=torch.int32).to("cuda")
    run("lanes", on_gpu(x, torch.int32), out, threads=64)
    found = [[v & 0xFFFFFFFF for v in row] for row in out.view(14, 64).tolist()]
    warps = [x[:32], x[32:]]

    def check(at: int, expected: Any) -> None:
        assert found[at] == [expected(warp, lane) & 0xFFFFFFFF for warp in warps for lane in range(32)], at

    def lanes_where(warp: list[int], keep: Any) -> int:
        return sum(1 << i for i, v in enumerate(warp) if keep(v))

    check(0, lambda warp, i: warp[i - 3] if i >= 3 else warp[i] + 1000)
    check(1, lambda warp, i: warp[i + 5] if i % 8 + 5 < 8 else warp[i] + 1000)
    check(2, lambda warp, i: warp[i ^ 9])
    check(3, lambda warp, i: warp[i // 8 * 8 + 5])
    check(4, lambda warp, i: lanes_where(warp, lambda v: v > 50))
    check(5, lambda warp, i: 1)
    check(6, lambda warp, i: lanes_where(warp, lambda v: v % 3 == warp[i] % 3))
    check(7, lambda warp, i: sum(warp))
    check(8, lambda warp, i: -max(warp))
    check(9, lambda warp, i: 100 if i == 0 else 0)
    check(10, lambda warp, i: i)
    check(11, lambda warp, i: warps.index(warp))
    check(12, lambda warp, i: (1 << i) - 1)
    check(13, lambda warp, i: 64)


@child(VIRTUAL, CPU, *STORED)
def test_shared_memory_by_addresses_of_32_bits() -> None:
    given = [float(i % 11) for i in range(128)]
    out = torch.zeros(224).to("cuda")
    run("block", on_gpu(given, torch.float32), out, shared=1536)
    made = out.view(7, 32).tolist()
    # Of the first four lanes, the last eight bytes are zero.
    copied = [0 if i // 4 < 4 and i % 4 >= 2 else given[i] for i in range(128)]
    assert made[0] == [copied[4 * (31 - i) + 1] for i in range(32)]
    assert made[1] == [copied[4 * (31 - i) + 2] for i in range(32)]
    assert made[4] == [given[i] + 1 for i in range(32)]
    assert made[3] == [sum(v > 5 for v in given[:32]) * 10 + 3] * 32
    assert made[5] == [given[4 * i + 3] for i in range(32)]
    assert made[6] == [copied[4 * i + 3] for i in range(32)]


@child(VIRTUAL, CPU, *STORED)
def test_matrices_are_loaded_and_stored_by_a_warp() -> None:
    given = list(range(256))
    out = torch.zeros(576, dtype=torch.int16).to("cuda")
    run("matrices", on_gpu(given, torch.int16), out)
    made = out.view(9, 32, 2).tolist()
    for k in range(4):
        assert made[k] == [[64 * k + 8 * (i // 4) + i % 4 * 2 + j for j in (0, 1)] for i in range(32)]
    for k in range(2):
        transposed = [[64 * k + 8 * (i % 4 * 2 + j) + i // 4 for j in (0, 1)] for i in range(32)]
        assert made[4 + k] == transposed
        assert made[7 + k] == transposed  # stored row by row
    assert made[6] == made[4]


def small(rows: int, columns: int, seed: int) -> torch.Tensor:
    return torch.tensor([[float((seed * (i * columns + j) + i) % 7 - 3) for j in range(columns)] for i in range(rows)])


@child(VIRTUAL, CPU, *STORED)
def test_products_of_tensor_cores() -> None:
    a, b = small(1, 512, 5).flatten(), small(1, 256, 3).flatten()
    out = torch.zeros(9 * 128).to("cuda")
    run("products", a.to("cuda"), b.to("cuda"), out)
    # What each lane's sums begin with.
    start = torch.tensor([[1.0, 2.0] * 4] * 8 + [[3.0, 4.0] * 4] * 8)
    for at, depth in enumerate((16, 8, 16, 8, 4, 32, 32, 16)):
        expected = a[: 16 * depth].view(16, depth) @ b[: 8 * depth].view(depth, 8) + start
        assert torch.equal(out[128 * at : 128 * at + 128].cpu().view(16, 8), expected), at
    expected = a[:32].view(8, 4) @ b[:32].view(4, 8) + start[:8]
    assert torch.equal(out[1024:1088].cpu().view(8, 8), expected)


@child(VIRTUAL, CPU, *STORED)
def test_wmma_multiplies_tiles() -> None:
    a, b = small(1, 512, 5).flatten(), small(1, 512, 3).flatten()
    out = torch.zeros(1344).to("cuda")
    run("tiles", a.to("cuda"), b.to("cuda"), out)
    shapes = [
        (16, 16, 16, 1, 1),
        (32, 8, 16, 0, 1),
        (8, 32, 16, 1, 0),
        (16, 16, 8, 1, 1),
        (16, 16, 16, 0, 0),
        (8, 8, 4, 1, 1),
    ]
    for at, (m, n, k, is_row_a, is_row_b) in enumerate(shapes):
        left = a[: m * k].view(m, k) if is_row_a else a[: m * k].view(k, m).T
        right = b[: k * n].view(k, n) if is_row_b else b[: k * n].view(n, k).T
        start = torch.tensor([float(i % 5) * 2 for i in range(m * n)]).view(m, n)
        made = out[256 * at : 256 * at + m * n].cpu().view(n, m).T
        assert torch.equal(made, left @ right + start), at
    half = [one.half().to("cuda") for one in (a[:256], b[:256])]
    run("raw_tiles", *half, out)
    assert torch.equal(out[:256].cpu().view(16, 16), a[:256].view(16, 16) @ b[:256].view(16, 16).T + 1)
    # Sums are cut off, as an H200 does it: 2 + 1.75 * 2^-22 is 2 + 2^-22.
    x, y = torch.zeros(256), torch.zeros(256)
    x[:2], y[:2] = torch.tensor([1, 1.75 * 2**-11]), torch.tensor([1, 2**-11])
    run("raw_tiles", x.half().to("cuda"), y.half().to("cuda"), out)
    assert out[0].item() == 2 + 2**-22


PART = """
extern "C" __global__ void part(int* x) {
  asm volatile("bar.sync 1, 64;");
  x[0] = 1;
}
"""


def launch_part() -> None:
    kernel = torch.cuda._compile_kernel(PART.lstrip(), "part")
    kernel(grid=(1, 1, 1), block=(96, 1, 1), args=[torch.zeros(1, dtype=torch.int32, device="cuda")])


def test_barrier_of_part_of_a_block_is_refused_when_it_is_reached() -> None:
    found = outcome(launch_part, CPU).err
    assert "part.cu:2: kernel part" in found
    assert "bar.sync 1 of 64 of the block's 96 threads is not supported here" in found
