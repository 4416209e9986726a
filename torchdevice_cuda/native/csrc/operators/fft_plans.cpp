#include "operators/fft_plans.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "runtime/install.h"

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

namespace {

// A plan is the transform, the type, the shape, and the dimensions transformed.
void transform(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t base = stack->size() - op.schema().arguments().size();
  const at::Tensor& self = (*stack)[base].toTensor();
  if (is_device_tensor(self)) {
    std::ostringstream plan;
    plan << op.schema().name() << self.scalar_type() << self.sizes() << self.strides() << (*stack)[base + 1];
    fft_plans(self.device().index()).use(plan.str());
  }
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
}

}  // namespace

void register_fft() {
  if (!kIsCuda) return;
  auto* m = new torch::Library(
      torch::Library::IMPL, "aten", std::make_optional(kDense), __FILE__, static_cast<uint32_t>(__LINE__));
  for (const char* name : {"_fft_c2c", "_fft_r2c", "_fft_c2r"}) {
    m->impl(name, torch::CppFunction::makeFromBoxedFunction<&transform>());
    claim(kDense, name);
  }
}

}  // namespace hostdevice
