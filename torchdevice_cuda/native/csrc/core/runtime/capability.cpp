#include "runtime/capability.h"

namespace hostdevice {

// An H200's until it is told.
Capability g_capability{9, 0, 91900};

}  // namespace hostdevice
