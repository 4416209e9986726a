// The data of a memory snapshot, as torch.cuda.memory._snapshot() returns it.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compat.h"
#include "runtime/history.h"

namespace hostdevice {

struct BlockInfo {
  uintptr_t address = 0;
  size_t size = 0, requested = 0;
  const char* state = "inactive";
  Context context;
};

struct SegmentInfo {
  c10::DeviceIndex device = 0;
  uintptr_t address = 0;
  size_t total = 0, allocated = 0, active = 0, requested = 0;
  c10::StreamId stream = 0;
  bool large = false, expandable = false;
  PoolId pool{0, 0};
  Context context;
  std::vector<BlockInfo> blocks;
};

}  // namespace hostdevice
