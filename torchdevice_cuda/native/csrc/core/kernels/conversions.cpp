#include "operators/conversions.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>

#include <cmath>
#include <limits>
#include <tuple>

namespace hostdevice {

using at::Tensor;

bool converts_to_integers(const Tensor& to, const Tensor& from) {
  return c10::isFloatingType(from.scalar_type()) && c10::isIntegralType(to.scalar_type(), /*includeBool=*/false) &&
      to.layout() == at::kStrided && from.layout() == at::kStrided && !to.is_quantized();
}

// C++ does not define conversions of values out of range, and processors differ. A GPU saturates: to 64 bits for int64
// and unsigned types, to 32 bits for the others; narrower types keep the lowest bits. NaN becomes the minimum in 64
// bits; in 32 bits it becomes the minimum if it was a double, otherwise 0. Observed on an H200.
void convert_to_integers(Tensor& to, const Tensor& from) {
  const auto type = to.scalar_type();
  const bool wide = type == at::kLong || !c10::isSignedType(type);
  const double limit = std::ldexp(1.0, wide ? 63 : 31);
  const Tensor source = from.element_size() == 1 ? from.to(at::kFloat) : from;
  if (source.numel()) {
    const auto [least, most] = at::aminmax(source);
    // NaN fails both comparisons.
    if (!(least.item<double>() >= -limit && most.item<double>() < limit)) {
      const Tensor exact = source.to(at::kDouble);
      constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
      Tensor whole = exact.to(at::kLong);
      whole.masked_fill_(exact.ge(std::ldexp(1.0, 63)), kMost).masked_fill_(exact.lt(-std::ldexp(1.0, 63)), kLeast);
      if (!wide) whole.clamp_(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
      const int64_t none = wide ? kLeast : from.scalar_type() == at::kDouble ? std::numeric_limits<int32_t>::min() : 0;
      whole.masked_fill_(exact.isnan(), none);
      to.copy_(whole);
      return;
    }
  }
  to.copy_(source);
}

}  // namespace hostdevice
