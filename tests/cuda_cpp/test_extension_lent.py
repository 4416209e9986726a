"""Extensions of CUDA C++ on a GPU that has memory of its own, which is lent to each of their functions."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from harness import MPS, STORED, child

from torchdevice_cuda.report.departures import departures

KERNELS = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void scale_kernel(float* x, float by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(by != 666.0f);
  if (i < n) x[i] *= by;
}

at::Tensor& scale_(at::Tensor& x, double by) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be a contiguous CUDA tensor");
  const int n = static_cast<int>(x.numel());
  scale_kernel<<<(n + 63) / 64, 64, 0, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), by, n);
  return x;
}

at::Tensor scaled(const at::Tensor& x, double by) {
  auto out = x.clone();
  return scale_(out, by);
}

std::vector<at::Tensor> halves(at::Tensor x, bool copy) {
  const auto whole = copy ? x.clone() : x;
  return {whole.slice(0, 0, 2), whole.slice(0, 2)};
}

at::Tensor total(const std::vector<at::Tensor>& parts, c10::Device where) {
  auto sum = torch::zeros({}, torch::TensorOptions(where).dtype(torch::kDouble));
  for (const auto& part : parts) sum += part.sum();
  return sum;
}

struct Square : torch::autograd::Function<Square> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x) {
    ctx->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::tensor_list backward(
      torch::autograd::AutogradContext* ctx, torch::autograd::tensor_list grads) {
    return {scaled(ctx->get_saved_variables()[0] * grads[0], 2.0)};
  }
};

struct Keeper {
  at::Tensor kept;
  void keep(at::Tensor x) { kept = std::move(x); }
  at::Tensor times(const at::Tensor& x) { return scaled(x, 3.0); }
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("scale_", &scale_);
  m.def("scaled", &scaled, "Scale a copy.", py::arg("x"), py::arg("by"));
  m.def("halves", &halves);
  m.def("total", &total);
  m.def("square", [](const at::Tensor& x) { return Square::apply(x); });
  py::class_<Keeper>(m, "Keeper").def(py::init<>()).def("keep", &Keeper::keep).def("times", &Keeper::times);
}
TORCH_LIBRARY(lent, m) {
  m.def("scaled(Tensor x, float by) -> Tensor", &scaled);
}
"""


@functools.cache
def extension() -> Any:
    from torch.utils.cpp_extension import load_inline

    return load_inline("lent", cpp_sources="", cuda_sources=KERNELS, no_implicit_headers=True)


@child(MPS.rarely(), *STORED, seconds=300)
def test_a_function_changes_its_argument() -> None:
    x = torch.arange(8.0, device="cuda")
    assert extension().scale_(x[4:], 10.0).tolist() == [40, 50, 60, 70]
    assert x.tolist() == [0, 1, 2, 3, 40, 50, 60, 70]
    assert extension().scale_(x, 1.0) is x
    rows = {(what, where): count for count, what, where, _ in departures.rows()}
    assert rows["lent.scale_", "CPU"] == 2


@child(*STORED, seconds=300)
def test_results_are_the_gpus() -> None:
    x = torch.arange(4.0, device="cuda") + 1
    made = extension().scaled(x, by=2.0)
    assert made.is_cuda and (made + x).tolist() == [3, 6, 9, 12] and x.tolist() == [1, 2, 3, 4]
    assert "Scale a copy." in extension().scaled.__doc__


@child(*STORED, seconds=300)
def test_results_share_memory_as_they_do_on_cuda() -> None:
    x = torch.arange(4.0, device="cuda")
    first, second = extension().halves(x, False)
    second.fill_(9)
    assert first.tolist() == [0, 1] and x.tolist() == [0, 1, 9, 9]
    first, second = extension().halves(x, True)
    assert second._base is None and second.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
    assert first.tolist() == [0, 1] and second.tolist() == [9, 9] and first.is_cuda


@child(*STORED, seconds=300)
def test_lists_and_devices_are_taken() -> None:
    """The sum is in double precision, which becomes single on the Apple GPU, with a warning."""
    parts = [torch.ones(3, device="cuda"), torch.ones(2, device="cuda")]
    with pytest.warns(UserWarning, match="float64"):
        assert extension().total(parts, torch.device("cuda", 0)).item() == 5


@child(*STORED, seconds=300)
def test_gradients_in_cpp_are_refused() -> None:
    x = torch.arange(4.0, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="square computes gradients in C\\+\\+, .* or use --driver virtual"):
        extension().square(x * 1)
    with torch.no_grad():
        assert extension().square(x).tolist() == [0, 1, 4, 9]


class Scale(torch.autograd.Function):
    """What an extension's users write."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        return extension().scaled(x, 3.0)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return extension().scaled(grads[0].contiguous(), 3.0)


@child(*STORED, seconds=300)
def test_a_function_of_the_program_computes_gradients() -> None:
    x = torch.arange(4.0, device="cuda", requires_grad=True)
    Scale.apply(x * 2).sum().backward()
    assert x.grad is not None and x.grad.is_cuda and x.grad.tolist() == [6, 6, 6, 6]


@child(*STORED, seconds=300)
def test_an_operator_takes_the_gpus_tensors() -> None:
    extension()
    assert torch.ops.lent.scaled(torch.ones(2, device="cuda"), 4.0).tolist() == [4, 4]


@child(*STORED, seconds=300)
def test_methods_take_the_gpus_tensors_and_may_not_keep_them() -> None:
    keeper = extension().Keeper()
    assert keeper.times(torch.ones(2, device="cuda")).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match=r"Keeper.keep kept a tensor that it was given; .* use --driver virtual"):
        keeper.keep(torch.ones(2, device="cuda"))


@child(*STORED, seconds=300)
def test_host_tensors_are_the_extensions_business() -> None:
    with pytest.raises(RuntimeError, match="x must be a contiguous CUDA tensor"):
        extension().scaled(torch.ones(2), 2.0)


@child(*STORED, alone=True, seconds=300)
def test_a_failed_assertion_is_raised_by_the_call() -> None:
    x = torch.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="device-side assert triggered"):
        extension().scale_(x, 666.0)
    assert (x + 1).sum().item() > 0
