// Attention: the fused kernels, the choice among them, and a query of that choice for programs.
#include "attention/attention_choice.h"

#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"
#include "bindings/part.h"

namespace hostdevice {

void register_attention_choice(Registrar& registrar);
void register_fused_attention(Registrar& registrar);

namespace {

void begin(PyObject* module) {
  Registrar registrar(kDense);
  register_attention_choice(registrar);
  register_fused_attention(registrar);
  auto m = py::reinterpret_borrow<py::module_>(module);
  keep_types_of_errors();
  m.def(
      "takes_attention",
      [](int kernel, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
         const std::optional<at::Tensor>& mask, double dropout, bool causal, bool gqa, bool debug) {
        return takes_attention(
            static_cast<at::SDPBackend>(kernel), {query, key, value, mask, dropout, causal, gqa}, debug);
      },
      py::arg("kernel"), py::arg("query"), py::arg("key"), py::arg("value"), py::arg("mask"), py::arg("dropout"),
      py::arg("causal"), py::arg("gqa"), py::arg("debug"));
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(attention, hostdevice::begin)
