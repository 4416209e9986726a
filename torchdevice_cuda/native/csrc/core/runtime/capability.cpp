#include "runtime/capability.h"

namespace hostdevice {

// The default is an H200.
Capability g_capability{9, 0, 91900};

}  // namespace hostdevice
