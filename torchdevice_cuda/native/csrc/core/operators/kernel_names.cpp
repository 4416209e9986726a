#include "operators/kernel_names.h"

#include <cstring>
#include <string_view>

namespace hostdevice {
namespace {

struct NameRow {
  const char* cpu;
  const char* cuda;
  const char* op = nullptr;  // where operators with different CUDA kernels share a CPU kernel
};

constexpr NameRow kNameRows[] = {
#include "contract/kernel_names.inc"
};

std::string cuda_name(const std::string& cpu, const std::string& op) {
  for (const auto& row : kNameRows)
    if (cpu == row.cpu && (!row.op || op == row.op)) return row.cuda;
  // Names of CPU kernels also contain "vml" if they use the vector math library.
  for (const std::string_view part : {"_vml_cpu", "_cpu"}) {
    const auto at = cpu.find(part);
    if (at != std::string::npos) return cpu.substr(0, at) + "_cuda" + cpu.substr(at + part.size());
  }
  return cpu;
}

}  // namespace

void refuse_as_cuda(const c10::NotImplementedError& refusal, const std::string& op, c10::ScalarType given) {
  static constexpr std::string_view kNotImplemented = "\" not implemented for ";
  const std::string message = refusal.msg();
  const auto end = message.find(kNotImplemented);
  if (message.empty() || message[0] != '"' || end == std::string::npos) return;
  const std::string type = given == c10::ScalarType::Undefined ? message.substr(end + kNotImplemented.size())
                                                               : "'" + std::string(c10::toString(given)) + "'";
  TORCH_CHECK_NOT_IMPLEMENTED(false, '"', cuda_name(message.substr(1, end - 1), op), kNotImplemented, type);
}

}  // namespace hostdevice
