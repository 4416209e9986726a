"""Shuffles whose arguments all lanes share move whole warps; they give what shuffles lane by lane give."""

from __future__ import annotations

from harness import CPU, VIRTUAL, child
from harness.cuda_programs import load_kernels

SOURCE = """
#define SHUFFLES(T, mask, amount) \\
  { const T v = (T)(3 * rank + 1); T* to = reinterpret_cast<T*>(out + (at++ * threads + rank) * 4); \\
    to[0] = __shfl_sync(mask, v, amount, width); to[1] = __shfl_up_sync(mask, v, amount, width); \\
    to[2] = __shfl_down_sync(mask, v, amount, width); to[3] = __shfl_xor_sync(mask, v, amount, width); }
extern "C" __global__ void shuffles(long long* out, int width, const int* own) {
  const int threads = blockDim.x * blockDim.y, rank = threadIdx.y * blockDim.x + threadIdx.x;
  int at = 0;
  for (int k = 0; k < 32; ++k) {
    SHUFFLES(long long, 0xffffffffu, k)
    SHUFFLES(long long, 0xffffffffu, own[rank] + k)
  }
}
extern "C" __global__ void some(long long* out, int width) {
  const int threads = blockDim.x * blockDim.y, rank = threadIdx.y * blockDim.x + threadIdx.x;
  int at = 0;
  if (threadIdx.y % 2) {
    for (int k = 0; k < 16; ++k) SHUFFLES(long long, 0xffff0000u, k)
  }
}
extern "C" __global__ void types(long long* out, int width) {
  const int threads = blockDim.x * blockDim.y, rank = threadIdx.y * blockDim.x + threadIdx.x;
  int at = 0;
  SHUFFLES(short, 0xffffffffu, 3)
  SHUFFLES(float, 0xffffffffu, 3)
  SHUFFLES(double, 0xffffffffu, 3)
  SHUFFLES(unsigned char, 0xffffffffu, 3)
}
"""
KERNELS = ("shuffles", "some", "types")


def list_sources(lane: int, amount: int, width: int) -> list[int]:
    """Return the lanes that one lane takes from: by index, up, down and xor."""
    begin = lane // width * width
    end = begin + width
    up, down, xor = lane - amount, lane + amount, lane ^ amount
    return [
        begin + amount % width,
        up if up >= begin else lane,
        down if down < end else lane,
        xor if xor < end else lane,
    ]


@child(VIRTUAL, CPU)
def test_lanes_that_share_their_arguments() -> None:
    import torch

    kernel = load_kernels(SOURCE, *KERNELS)["shuffles"]
    for block in ((64, 1), (40, 2)):  # the last of these warps is not full
        threads = block[0] * block[1]
        own = torch.zeros(threads, dtype=torch.int32, device="cuda")
        for width in (32, 8):
            out = torch.zeros(64, threads, 4, dtype=torch.int64, device="cuda")
            kernel(block=(*block, 1), args=[out, width, own])
            shared, single = out.cpu().view(32, 2, threads, 4).unbind(1)
            assert torch.equal(shared, single)
            for amount in range(32):
                for rank in range(threads // 32 * 32):
                    expected = [3 * (rank - rank % 32 + s) + 1 for s in list_sources(rank % 32, amount, width)]
                    assert shared[amount, rank].tolist() == expected


@child(VIRTUAL, CPU)
def test_lanes_of_a_part_of_each_warp() -> None:
    import torch

    kernel = load_kernels(SOURCE, *KERNELS)["some"]
    out = torch.zeros(16, 128, 4, dtype=torch.int64, device="cuda")
    kernel(block=(16, 8, 1), args=[out, 16])
    for amount in range(16):
        for rank in range(128):
            sources = list_sources(rank % 32, amount, 16)
            expected = [3 * (rank - rank % 32 + s) + 1 for s in sources] if rank // 16 % 2 else [0] * 4
            assert out[amount, rank].tolist() == expected


@child(VIRTUAL, CPU)
def test_values_of_other_sizes() -> None:
    import torch

    kernel = load_kernels(SOURCE, *KERNELS)["types"]
    out = torch.zeros(4, 32, 4, dtype=torch.int64, device="cuda")
    kernel(block=(32, 1, 1), args=[out, 32])
    for row, dtype in zip(out.cpu(), (torch.int16, torch.float32, torch.float64, torch.uint8), strict=True):
        found = row.view(dtype).view(32, -1)[:, :4].double()
        expected = torch.tensor([[3 * s + 1 for s in list_sources(lane, 3, 32)] for lane in range(32)])
        assert torch.equal(found, expected.double())
