// A library with operators of its own. Its kernels for CUDA say that they were called; those for the CPU compute.
#include <Python.h>
#include <torch/library.h>

#include <vector>

namespace {

at::Tensor on_cpu(const at::Tensor& x) {
  TORCH_CHECK(x.is_cpu(), "on ", x.device());
  return x.mul(2);
}
std::vector<at::Tensor> several_on_cpu(at::TensorList all) {
  std::vector<at::Tensor> made;
  for (const auto& x : all) made.push_back(on_cpu(x));
  return made;
}
at::Tensor on_cuda(const at::Tensor&) {
  TORCH_CHECK(false, "the library's kernel for CUDA was called");
}
std::vector<at::Tensor> several_on_cuda(at::TensorList all) {
  return {on_cuda(all[0])};
}

}  // namespace

TORCH_LIBRARY(foreign, m) {
  m.def("twice(Tensor x) -> Tensor");
  m.def("twice.all(Tensor[] all) -> Tensor[]");
  m.def("gpu_only(Tensor x) -> Tensor");
  m.def("written(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(foreign, CPU, m) {
  m.impl("twice", &on_cpu);
  m.impl("twice.all", &several_on_cpu);
  m.impl("written", &on_cpu);
}
TORCH_LIBRARY_IMPL(foreign, CUDA, m) {
  m.impl("twice", &on_cuda);
  m.impl("twice.all", &several_on_cuda);
  m.impl("gpu_only", &on_cuda);
}

PyMODINIT_FUNC PyInit_foreign() {
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "foreign", nullptr, 0};
  return PyModule_Create(&definition);
}
