// Fourier transforms, which add a plan to the cache and return results in cuFFT's layout.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/install.h"
#include "operators/registration.h"
#include "runtime/fft_plans.h"

namespace hostdevice {
namespace {

using Strides = c10::SmallVector<int64_t, 8>;

// Return the strides that cuFFT leaves: transformed dimensions innermost, in the order given; the others around them,
// in their previous order.
Strides transformed(at::IntArrayRef strides, at::IntArrayRef sizes, at::IntArrayRef dims) {
  std::vector<int64_t> order(strides.size());
  std::iota(order.begin(), order.end(), 0);
  const auto batch_end = std::partition(
      order.begin(), order.end(), [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) == dims.end(); });
  std::sort(order.begin(), batch_end, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  std::copy(dims.begin(), dims.end(), batch_end);
  Strides out(strides.size());
  int64_t step = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    out[*d] = step;
    step *= std::max<int64_t>(sizes[*d], 1);
  }
  return out;
}

constexpr size_t kMaxDimsAtOnce = 3;

// Whether cuFFT does a transform of real numbers in one call: not if there are too many dimensions or they start with
// the first two.
bool is_single_call(at::IntArrayRef dims) {
  return dims.size() <= kMaxDimsAtOnce && !(dims.size() >= 2 && dims[0] == 0 && dims[1] == 1);
}

// Return the strides after transforms of complex numbers: up to three dimensions at a time, the innermost first.
Strides after_complex(at::IntArrayRef strides, at::IntArrayRef sizes, at::IntArrayRef dims) {
  Strides now(strides.begin(), strides.end());
  std::vector<int64_t> left(dims.begin(), dims.end());
  while (!left.empty()) {
    std::sort(left.begin(), left.end(), [&](int64_t a, int64_t b) { return now[a] > now[b]; });
    const size_t kept = left.size() - std::min(kMaxDimsAtOnce, left.size());
    now = transformed(now, sizes, at::IntArrayRef(left).slice(kept));
    left.resize(kept);
  }
  return now;
}

Strides contiguous(at::IntArrayRef sizes) {
  std::vector<int64_t> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), 0);
  return transformed(Strides(sizes.size()), sizes, dims);
}

// Return the strides of the real numbers that cuFFT reads: they must be aligned as complex numbers, else they are
// copied.
Strides read_as_complex(const at::Tensor& self, int64_t last) {
  const auto strides = self.strides();
  if (reinterpret_cast<uintptr_t>(self.const_data_ptr()) % (2 * self.element_size()) == 0)
    return {strides.begin(), strides.end()};
  std::vector<int64_t> order(self.dim());
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + last);
  order.push_back(last);
  return transformed(Strides(self.dim()), self.sizes(), order);
}

// Without a single call, the last dimension is transformed first. The full spectrum is filled in from one half, which
// is in its own tensor if there was no single call.
Strides after_real(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef dims, bool halved) {
  const Strides read = read_as_complex(self, dims.back());
  if (is_single_call(dims)) return transformed(read, sizes, dims);
  const int64_t whole = self.size(dims.back());
  if (!halved && whole / 2 + 1 != whole) return contiguous(sizes);
  return after_complex(transformed(read, sizes, dims.back()), sizes, dims.slice(0, dims.size() - 1));
}

// In a single call complex numbers are copied first, since cuFFT may overwrite them; otherwise all dimensions but the
// last are transformed first.
Strides to_real(const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef dims) {
  if (is_single_call(dims)) return transformed(contiguous(self.sizes()), sizes, dims);
  return transformed(after_complex(self.strides(), self.sizes(), dims.slice(0, dims.size() - 1)), sizes, dims.back());
}

void check_half(const at::Tensor& self, at::IntArrayRef dims, int64_t last_size) {
  if (self.scalar_type() != at::kHalf && self.scalar_type() != at::kComplexHalf) return;
  std::vector<int64_t> sizes;
  for (const auto d : dims) sizes.push_back(self.size(d));
  if (last_size > 0 && !sizes.empty()) sizes.back() = last_size;
  for (const auto size : sizes)
    TORCH_CHECK(
        (size & (size - 1)) == 0,
        "cuFFT only supports dimensions whose sizes are powers of two when computing in half precision, but got a "
        "signal size of",
        at::IntArrayRef(sizes));
}

Strides compute_strides(
    const std::string& name, const at::Tensor& self, at::IntArrayRef sizes, at::IntArrayRef dims, bool halved) {
  if (name == "aten::_fft_r2c") return after_real(self, sizes, dims, halved);
  if (name == "aten::_fft_c2r") return to_real(self, sizes, dims);
  return after_complex(self.strides(), sizes, dims);
}

// A plan consists of the transform, the type, the shape and the transformed dimensions.
void transform(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const std::string& name = op.schema().name();
  const size_t base = stack->size() - op.schema().arguments().size();
  const at::Tensor self = (*stack)[base].toTensor();
  const bool is_on_device = is_device_tensor(self);
  const bool halved = name == "aten::_fft_r2c" && (*stack)[base + 3].toBool();
  const auto dims = (*stack)[base + 1].toDimVector();
  if (is_on_device) {
    check_half(self, dims, name == "aten::_fft_c2r" ? (*stack)[base + 3].toInt() : 0);
    std::ostringstream plan;
    plan << name << self.scalar_type() << self.sizes() << self.strides() << (*stack)[base + 1];
    fft_plans(self.device().index()).use(plan.str());
  }
  run_on_cpu(op, c10::DispatchKey::CPU, stack);
  if (!is_on_device || dims.empty() || !op.schema().overload_name().empty()) return;
  const at::Tensor& made = stack->back().toTensor();
  const Strides wanted = compute_strides(name, self, made.sizes(), dims, halved);
  if (made.strides() == at::IntArrayRef(wanted)) return;
  stack->back() = at::empty_strided(made.sizes(), wanted, made.options()).copy_(made);
}

}  // namespace

void register_fft() {
  if (!kIsCuda) return;
  Registrar registrar(kDense);
  for (const char* name : {"_fft_c2c", "_fft_r2c", "_fft_c2r"}) registrar.impl(name, &transform);
}

}  // namespace hostdevice
