"""Kernels that a program casts to ``void*`` and launches later, from other sources too."""

from __future__ import annotations

from pathlib import Path

from harness.cuda_programs import compile_and_run

KERNELS = r"""
#include <cstdio>
#include <cuda_runtime.h>
template <class T, int N> __global__ void scale(T* x, T by, int n) { if (threadIdx.x < n) x[threadIdx.x] *= by + N; }
namespace inner { __global__ void add(int* x, int by) { x[threadIdx.x] += by; } }
struct Spec { void* kernel; int threads; };
template <class T> Spec choose(int which) {
  if (which) return {(void*)scale<T, (1 < 2)>, 4};
  return {(void *)scale<T, 2>, 4};
}
cudaError_t launch_on_host(const void* kernel, int threads, void** arguments);
int main() {
  float x[4] = {1, 2, 3, 4}, by = 2; int n = 3; float* p = x;
  void* arguments[] = {&p, &by, &n};
  launch_on_host(choose<float>(1).kernel, 4, arguments);
  launch_on_host(choose<float>(0).kernel, 4, arguments);
  int y[2] = {}, *q = y, seven = 7;
  void* others[] = {&q, &seven};
  const void* kept = reinterpret_cast<const void*>(&inner::add);
  cudaLaunchKernel(kept, dim3(1), dim3(2), others, 0, 0);
  cudaLaunchKernel((void*)inner::add, 1, 2, others, 0, 0);
  cudaLaunchKernel((const void*)inner::add, 1, 2, others);
  printf("%g %g %g %d ", x[0], x[2], x[3], y[1]);
  float* scale = x;
  printf("%d ", (void*)scale == x && (void*)&scale[1] == x + 1);
  auto variable = inner::add;
  const void* lost = static_cast<int*>(nullptr) == nullptr ? (void*)variable : nullptr;
  (void)lost;
  printf("%s\n", cudaGetErrorName(cudaLaunchKernel((void*)x, 1, 2, others)));
}
"""
HOST = r"""
#include <cuda_runtime.h>
cudaError_t launch_on_host(const void* kernel, int threads, void** arguments) {
  return cudaLaunchKernel(kernel, 1, threads, arguments, 0, nullptr);
}
"""


def test_kernels_are_launched_by_their_addresses(tmp_path: Path) -> None:
    """A table of addresses is filled in one source, and C++ of another launches them."""
    (tmp_path / "kernels.cu").write_text(KERNELS)
    (tmp_path / "host.cpp").write_text(HOST)
    done = compile_and_run(tmp_path, str(tmp_path / "kernels.cu"), str(tmp_path / "host.cpp"))
    assert done.stdout == "12 36 4 21 1 cudaErrorInvalidDeviceFunction\n"
    assert done.stderr.startswith("cudaLaunchKernel: the type of a kernel is lost, which was cast to void*")
