// The FFT plan cache that torch.backends.cuda.cufft_plan_cache reports: the transforms that the program has used.
#pragma once

#include <list>
#include <mutex>
#include <string>

#include "runtime/device.h"

namespace hostdevice {

class FftPlans {
 public:
  void use(const std::string& plan);
  int64_t size();
  int64_t max_size();
  void set_max_size(int64_t n);
  void clear();

 private:
  std::mutex mutex_;              // protects the other members
  std::list<std::string> plans_;  // most recently used first
  size_t max_size_ = 4096;
};

FftPlans& fft_plans(c10::DeviceIndex index);

}  // namespace hostdevice
