#include <Python.h>
#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

__global__ void twice_kernel(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}

at::Tensor twice(const at::Tensor& x) {
  auto out = at::empty_like(x);
  const int n = static_cast<int>(x.numel());
  twice_kernel<<<(n + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.const_data_ptr<float>(), out.mutable_data_ptr<float>(), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

TORCH_LIBRARY(tiny_cuda, m) {
  m.def("twice(Tensor x) -> Tensor", &twice);
}

extern "C" PyObject* PyInit__C() {
  static PyModuleDef module{PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
  return PyModule_Create(&module);
}
