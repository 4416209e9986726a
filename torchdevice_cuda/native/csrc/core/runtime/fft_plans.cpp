#include "runtime/fft_plans.h"

#include <algorithm>
#include <array>

namespace hostdevice {

void FftPlans::use(const std::string& plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (max_size_ == 0) return;
  const auto found = std::find(plans_.begin(), plans_.end(), plan);
  if (found != plans_.end()) {
    plans_.splice(plans_.begin(), plans_, found);
    return;
  }
  if (plans_.size() >= max_size_) plans_.pop_back();
  plans_.push_front(plan);
}
int64_t FftPlans::size() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(plans_.size());
}
int64_t FftPlans::max_size() {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(max_size_);
}
void FftPlans::set_max_size(int64_t n) {
  std::lock_guard<std::mutex> lock(mutex_);
  max_size_ = static_cast<size_t>(n);
  if (plans_.size() > max_size_) plans_.resize(max_size_);
}
void FftPlans::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  plans_.clear();
}

FftPlans& fft_plans(c10::DeviceIndex index) {
  static auto* all = new std::array<FftPlans, kMaxDevices>;
  return all->at(static_cast<size_t>(index));
}

}  // namespace hostdevice
