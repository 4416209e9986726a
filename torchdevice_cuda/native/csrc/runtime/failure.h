// A kernel has ended the context, as a failed assertion does: from then on whoever waits for the device is told so.
#pragma once

#include <string>

namespace hostdevice {

void fail_context(int code, const std::string& words);

}  // namespace hostdevice
