// Calls of operators without computing large tensors, whose memory is never touched.
#pragma once

#include <string>

namespace hostdevice {

// What depends on values that were not computed.
enum class Unknown : uint8_t {
  kValue,   // the host reads one
  kSize,    // the size of a result
  kKernel,  // memory that a kernel of other code would write
};
// Called for each; may throw.
using ReportUnknown = void (*)(Unknown what, const std::string& name);

void start_rehearsal(ReportUnknown report);
// Compute again. Memory that was not computed has unspecified values.
void stop_rehearsal();

}  // namespace hostdevice
