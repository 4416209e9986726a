"""An extension with CUDA sources is built by `load_inline` and takes part in what the device does."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from harness import STORED, VIRTUAL, child

# Few headers: PyTorch's usual ones take most of the time that this test takes.
SOURCE = r"""
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>
#include <ATen/ops/empty_like.h>
#include <curand_kernel.h>
#include <torch/library.h>

__global__ void draw_kernel(float* out, int n, at::PhiloxCudaState given) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto [seed, offset] = at::cuda::philox::unpack(given);
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, offset, &state);
  const float4 drawn = curand_uniform4(&state);
  out[i] = drawn.x == 1.0f ? 0.0f : drawn.x;
}

at::Tensor draw_like(const at::Tensor& like) {
  TORCH_CHECK(like.is_cuda(), "draw_like takes a CUDA tensor");
  auto out = at::empty_like(like);
  auto* generator = at::get_generator_or_default<at::CUDAGeneratorImpl>(
      std::nullopt, at::cuda::detail::getDefaultCUDAGenerator());
  at::PhiloxCudaState given;
  {
    const std::lock_guard<std::mutex> lock(generator->mutex_);
    given = generator->philox_cuda_state(4);
  }
  const int n = static_cast<int>(out.numel());
  draw_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(out.mutable_data_ptr<float>(), n, given);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

TORCH_LIBRARY(drawing, m) {
  m.def("draw_like(Tensor like) -> Tensor", &draw_like);
}
"""


def built() -> Any:
    from torch.utils.cpp_extension import load_inline

    load_inline(
        "drawing", cpp_sources="", cuda_sources=SOURCE, is_python_module=False, no_implicit_headers=True, verbose=False
    )
    return torch.ops.drawing.draw_like


@child(VIRTUAL, seconds=300)
def test_load_inline_builds_an_extension_that_draws_as_the_device_does() -> None:
    draw = built()
    x = torch.zeros(500, device="cuda")
    generator = torch.cuda.default_generators[0]
    for seed in (7, 8):
        torch.manual_seed(seed)
        expected = [torch.rand(500, device="cuda") for _ in range(2)]
        after = generator.get_offset()
        torch.manual_seed(seed)
        assert all(torch.equal(draw(x), numbers) for numbers in expected)
        assert generator.get_offset() == after
    with pytest.raises(RuntimeError, match="draw_like takes a CUDA tensor"):
        draw(torch.zeros(3))


@child(*STORED, seconds=300)
def test_an_extension_draws_by_the_seed_of_a_gpu_that_lends_its_memory() -> None:
    draw, x = built(), torch.zeros(500, device="cuda")
    generator = torch.cuda.default_generators[0]
    torch.manual_seed(7)
    first, second = draw(x), draw(x)
    assert generator.get_offset() == 8
    assert not torch.equal(first, second) and 0.4 < first.mean() < 0.6
    torch.manual_seed(7)
    assert torch.equal(draw(x), first)
    generator.set_offset(4)
    assert torch.equal(draw(x), second)
