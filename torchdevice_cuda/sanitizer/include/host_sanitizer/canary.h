// What memory holds that nothing has written: the device fills it, and kernels look for it.
#pragma once

#include "../../../native/csrc/initcheck/canary.h"
