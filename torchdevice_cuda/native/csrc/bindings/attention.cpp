// Which of CUDA's kernels an attention would get, for programs that ask before they call.
#include "operators/attention_choice.h"

#include <torch/csrc/utils/pybind.h>

#include "bindings/module.h"

namespace hostdevice {

void bind_attention(py::module_& m) {
  m.def(
      "set_capability", [](int major, int minor, int cudnn) { set_capability({major, minor, cudnn}); },
      py::arg("major"), py::arg("minor"), py::arg("cudnn"));
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

}  // namespace hostdevice
