// How busy each device was in the last second of its clock: published for nvidia-smi, beside the bytes that the process
// holds (runtime/published.h).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace hostdevice {

// Publish from now on, or no more.
void publish_utilization(bool on);
// Add work of a device between two moments of its clock.
void add_busy_time(c10::DeviceIndex device, int64_t begin_ns, int64_t end_ns);

// While one exists, the clock stands still for those who read it.
class StandingStill {
 public:
  explicit StandingStill(int64_t steady_ns);
  ~StandingStill();
  StandingStill(const StandingStill&) = delete;
  StandingStill& operator=(const StandingStill&) = delete;
};

}  // namespace hostdevice
