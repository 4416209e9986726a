"""Extensions that keep to PyTorch's stable ABI find the functions for CUDA that a CPU build of PyTorch lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, STORED, VIRTUAL, child

SOURCE = r"""
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

using torch::stable::Tensor;

__global__ void shift_kernel(const float* x, float* y, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + by;
}

void* current_stream(int64_t device) {
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &stream));
  return stream;
}

// Shift twice, with what is between in memory of the caching allocator.
void shift(const Tensor& x, Tensor out, double by) {
  const auto device = x.get_device_index();
  const int n = static_cast<int>(x.numel());
  CUDAGuardHandle guard = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_cuda_guard(device, &guard));
  void* between = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_cuda_caching_allocator_raw_alloc(n * sizeof(float), &between));
  const auto stream = static_cast<cudaStream_t>(current_stream(device));
  const auto* from = static_cast<const float*>(x.const_data_ptr());
  auto* to = static_cast<float*>(out.mutable_data_ptr());
  shift_kernel<<<(n + 63) / 64, 64, 0, stream>>>(from, static_cast<float*>(between), by, n);
  shift_kernel<<<(n + 63) / 64, 64, 0, stream>>>(static_cast<float*>(between), to, by, n);
  STD_CUDA_KERNEL_LAUNCH_CHECK();
  TORCH_ERROR_CODE_CHECK(aoti_torch_cuda_caching_allocator_raw_delete(between));
  TORCH_ERROR_CODE_CHECK(aoti_torch_delete_cuda_guard(guard));
}

// The device inside of a guard whose device is changed to `index`.
int64_t guarded(int64_t index) {
  CUDAGuardHandle guard = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_cuda_guard(0, &guard));
  const auto failed = aoti_torch_cuda_guard_set_index(guard, index);
  int device = -1;
  cudaGetDevice(&device);
  TORCH_ERROR_CODE_CHECK(aoti_torch_delete_cuda_guard(guard));
  return failed ? -1 : device;
}

// Whether the current stream is `which` after each of these: a guard, its end, setting it, and setting it back.
int64_t follow(int64_t device) {
  void *pool = nullptr, *before = current_stream(device);
  TORCH_ERROR_CODE_CHECK(torch_get_cuda_stream_from_pool(false, device, &pool));
  CUDAStreamGuardHandle guard = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_create_cuda_stream_guard(pool, device, &guard));
  int64_t right = pool && pool != before && current_stream(device) == pool;
  TORCH_ERROR_CODE_CHECK(torch_cuda_stream_synchronize(pool, device));
  TORCH_ERROR_CODE_CHECK(aoti_torch_delete_cuda_stream_guard(guard));
  right += current_stream(device) == before;
  TORCH_ERROR_CODE_CHECK(torch_set_current_cuda_stream(pool, device));
  right += current_stream(device) == pool;
  TORCH_ERROR_CODE_CHECK(torch_set_current_cuda_stream(before, device));
  return right + (current_stream(device) == before);
}

int64_t has_blas(int64_t device) {
  void* handle = nullptr;
  TORCH_ERROR_CODE_CHECK(torch_get_current_cuda_blas_handle(&handle));
  cudaStream_t stream = nullptr;
  return cublasGetStream(static_cast<cublasHandle_t>(handle), &stream) == CUBLAS_STATUS_SUCCESS &&
      stream == current_stream(device);
}

int64_t check(int64_t code) {
  STD_CUDA_CHECK(static_cast<cudaError_t>(code));
  return code;
}

STABLE_TORCH_LIBRARY(stable_probe, m) {
  m.def("shift(Tensor x, Tensor(a!) out, float by) -> ()");
  m.def("shift_anywhere(Tensor x, Tensor(a!) out, float by) -> ()");
  m.def("guarded(int index) -> int");
  m.def("follow(int device) -> int");
  m.def("has_blas(int device) -> int");
  m.def("check(int code) -> int");
}
STABLE_TORCH_LIBRARY_IMPL(stable_probe, CUDA, m) { m.impl("shift", TORCH_BOX(&shift)); }
STABLE_TORCH_LIBRARY_IMPL(stable_probe, CompositeExplicitAutograd, m) {
  m.impl("shift_anywhere", TORCH_BOX(&shift));
  m.impl("guarded", TORCH_BOX(&guarded));
  m.impl("follow", TORCH_BOX(&follow));
  m.impl("has_blas", TORCH_BOX(&has_blas));
  m.impl("check", TORCH_BOX(&check));
}
"""
#: Compiled by the host's compiler alone.
HOST = r"""
#include <torch/csrc/stable/c/shim.h>
#include <torch/csrc/stable/library.h>

int64_t stream(int64_t device) {
  void* found = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device, &found));
  return reinterpret_cast<int64_t>(found);
}
STABLE_TORCH_LIBRARY_FRAGMENT(stable_probe, m) { m.def("stream(int device) -> int"); }
STABLE_TORCH_LIBRARY_IMPL(stable_probe, CompositeExplicitAutograd, m) { m.impl("stream", TORCH_BOX(&stream)); }
"""


def _build() -> Any:
    from torch.utils.cpp_extension import load_inline

    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10):
        pytest.skip("the functions of the stable ABI that the extension calls came with torch 2.10")
    kept = ["-DUSE_CUDA", "-DTORCH_TARGET_VERSION=0x020A000000000000"]
    load_inline(
        "stable_probe",
        cpp_sources=HOST,
        cuda_sources=SOURCE,
        extra_cflags=kept,
        extra_cuda_cflags=kept,
        is_python_module=False,
        no_implicit_headers=True,
        verbose=False,
    )
    return torch.ops.stable_probe


def _shift_twice(shift: Callable[..., None]) -> None:
    x = torch.arange(100.0, device="cuda")
    out = torch.zeros_like(x)
    shift(x, out, 2.5)
    assert torch.equal(out, x + 5)


@child(VIRTUAL, seconds=300)
def test_an_extension_of_the_stable_abi_follows_device_and_stream() -> None:
    probe = _build()
    _shift_twice(probe.shift)
    x, out = torch.ones(5, device="cuda"), torch.zeros(5, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        probe.shift(x, out, 1.0)
    assert out.tolist() == [0] * 5  # on the stream that is captured
    graph.replay()
    assert out.tolist() == [3] * 5
    assert probe.follow(0) == 4 and probe.has_blas(0) == 1
    assert probe.guarded(0) == 0 and probe.guarded(99) == -1
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        assert probe.stream(0) == stream.cuda_stream != 0
    assert probe.stream(0) == 0
    assert probe.check(0) == 0
    with pytest.raises(RuntimeError, match="CUDA error: invalid device ordinal"):
        probe.check(101)


@pytest.mark.slow
@child(*STORED, seconds=300)
def test_kernels_of_the_stable_abi_compute_on_memory_that_is_lent() -> None:
    _shift_twice(_build().shift)


@pytest.mark.slow
@child(CPU, seconds=300)
def test_kernels_of_the_stable_abi_compute_on_plain_memory() -> None:
    probe = _build()
    _shift_twice(probe.shift_anywhere)
    assert probe.guarded(0) == 0 and probe.has_blas(0) == 1
