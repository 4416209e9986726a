// cumsum, cumprod and logcumsumexp in the order of CUDA's kernels, which combine elements in their own type: a sum of
// 3,000 ones in float16 ends at 2972. The CPU's kernels accumulate one element after the other in a wider type.
#include <ATen/Parallel.h>
#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "operators/alias.h"
#include "operators/boxed.h"
#include "operators/registration.h"
#include "operators/types.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "scans/orders.h"

namespace hostdevice {
namespace {

using at::Tensor;
using c10::ScalarType;
using torch::jit::Stack;

// ---- operations ---------------------------------------------------------------------------------------------------

template <class Rounding>
struct Sum {
  static constexpr float kNeutral = 0;
  static float combine(float a, float b) {
    return Rounding::round(a + b);
  }
};
template <class Rounding>
struct Product {
  static constexpr float kNeutral = 1;
  static float combine(float a, float b) {
    return Rounding::round(a * b);
  }
};
template <class Rounding>
struct LogSumOfExps {
  static constexpr float kNeutral = -std::numeric_limits<float>::infinity();
  static float combine(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    const float low = std::min(a, b), high = std::max(a, b);
    if (low == high && !std::isfinite(low)) return a;
    return Rounding::round(std::log1p(std::exp(low - high)) + high);
  }
};

// ---- layouts ------------------------------------------------------------------------------------------------------

// A contiguous tensor around the dimension of a scan.
struct Layout {
  int64_t before, length, after;
};
Layout find_layout(const Tensor& t, int64_t dim) {
  Layout found{1, t.size(dim), 1};
  for (int64_t d = 0; d < t.dim(); d++) (d < dim ? found.before : found.after) *= d == dim ? 1 : t.size(d);
  return found;
}

template <class Op>
void scan(float* data, const Layout& layout, bool is_last, int items) {
  if (layout.before * layout.after == 1) return scan_tiles<Op>(data, layout.length, items);
  const int64_t slice = layout.length * layout.after;
  const int64_t grain = std::max<int64_t>(1, at::internal::GRAIN_SIZE / slice);
  const int log_threads = find_row_threads(layout.before, layout.length);
  at::parallel_for(0, layout.before, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      if (is_last)
        scan_row<Op>(data + i * slice, layout.length, log_threads);
      else
        scan_columns<Op>(data + i * slice, layout.length, layout.after);
    }
  });
}

template <template <class> class Op>
void scan_in_type(ScalarType type, float* data, const Layout& layout, bool is_last) {
  // CUB's tile has 15 elements of four bytes per thread, or as many bytes.
  constexpr int kItems = 15;
  if (type == ScalarType::Half)
    scan<Op<RoundToHalf>>(data, layout, is_last, 2 * kItems);
  else if (type == ScalarType::BFloat16)
    scan<Op<RoundToBfloat16>>(data, layout, is_last, 2 * kItems);
  else
    scan<Op<KeepFloat>>(data, layout, is_last, kItems);
}

using ScanInType = void (*)(ScalarType type, float* data, const Layout& layout, bool is_last);

// ---- kernels ------------------------------------------------------------------------------------------------------

// Return the scan, or none if the CPU's kernel computes it, or raises.
std::optional<Tensor> compute(const Tensor& self, int64_t dim, ScalarType type, Types types, ScanInType scan_values) {
  const bool is_known = is_device_tensor(self) && is_plain(self) && holds(types, type) &&
      holds(types | kIntegers | kBool | kFloats, self.scalar_type()) && self.numel() > 0 && self.dim() > 0 &&
      dim < self.dim() && dim >= -self.dim();
  if (!is_known) return std::nullopt;
  check_fork();
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset);
  const auto index = self.device().index();
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Tensor result = at::empty(self.sizes(), self.options().dtype(type).memory_format(at::MemoryFormat::Contiguous));
  Aliases aliases(index);
  aliases.keep_lazy();
  const Tensor from = aliases.to_cpu(self, false), to = aliases.to_cpu(result, false);
  to.copy_(from);
  const auto layout = find_layout(to, dim);
  const bool is_last = dim == to.dim() - 1;
  if (type == ScalarType::Float) {
    scan_values(type, to.mutable_data_ptr<float>(), layout, is_last);
  } else {
    // The GPU has no such copy.
    const AllocateOnDevice host(-1);
    const Tensor wide = to.to(ScalarType::Float);
    scan_values(type, wide.mutable_data_ptr<float>(), layout, is_last);
    to.copy_(wide);
  }
  return result;
}

// Call the CPU's kernel, which checks the arguments and resizes results.
Tensor call_on_cpu(const std::string& name, const char* overload, Stack stack) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload);
  run_on_cpu(op, c10::DispatchKey::CPU, &stack);
  return std::move(stack.back()).toTensor();
}

using OptType = std::optional<ScalarType>;

template <template <class> class Op>
std::optional<Tensor> accumulate(const Tensor& self, int64_t dim, OptType dtype) {
  const auto usual = at::isIntegralType(self.scalar_type(), true) ? ScalarType::Long : self.scalar_type();
  return compute(self, dim, dtype.value_or(usual), kHalves | kFloat, &scan_in_type<Op>);
}
template <template <class> class Op, const char* kName>
Tensor accumulate_new(const Tensor& self, int64_t dim, OptType dtype) {
  const auto computed = accumulate<Op>(self, dim, dtype);
  return computed.has_value() ? *computed : call_on_cpu(kName, "", {self, dim, dtype});
}
template <template <class> class Op, const char* kName>
Tensor& accumulate_in_place(Tensor& self, int64_t dim, OptType dtype) {
  const auto computed = accumulate<Op>(self, dim, dtype);
  call_on_cpu(std::string(kName) + "_", "", {self, dim, dtype});
  if (computed.has_value()) self.copy_(*computed);
  return self;
}
template <template <class> class Op, const char* kName>
Tensor& accumulate_out(const Tensor& self, int64_t dim, OptType dtype, Tensor& out) {
  const auto computed = accumulate<Op>(self, dim, dtype.value_or(out.scalar_type()));
  call_on_cpu(kName, "out", {self, dim, dtype, out});
  if (computed.has_value()) out.copy_(*computed);
  return out;
}

constexpr char kLogs[] = "aten::_logcumsumexp";
// A single element is its own result, whatever its type.
std::optional<Tensor> accumulate_logs(const Tensor& self, int64_t dim) {
  if (self.dim() == 0) return self.clone();
  return compute(self, dim, self.scalar_type(), kHalves, &scan_in_type<LogSumOfExps>);
}
Tensor logs_new(const Tensor& self, int64_t dim) {
  const auto computed = accumulate_logs(self, dim);
  return computed.has_value() ? *computed : call_on_cpu(kLogs, "", {self, dim});
}
Tensor& logs_out(const Tensor& self, int64_t dim, Tensor& out) {
  const auto computed = accumulate_logs(self, dim);
  if (self.dim() != 0) call_on_cpu(kLogs, "out", {self, dim, out});
  if (computed.has_value()) out.resize_(computed->sizes()).copy_(*computed);
  return out;
}

constexpr char kSum[] = "aten::cumsum", kProduct[] = "aten::cumprod";

}  // namespace

void register_scans(Registrar& registrar) {
  registrar.impl("cumsum", TORCH_FN((accumulate_new<Sum, kSum>)));
  registrar.impl("cumsum_", TORCH_FN((accumulate_in_place<Sum, kSum>)));
  registrar.impl("cumsum.out", TORCH_FN((accumulate_out<Sum, kSum>)));
  registrar.impl("cumprod", TORCH_FN((accumulate_new<Product, kProduct>)));
  registrar.impl("cumprod_", TORCH_FN((accumulate_in_place<Product, kProduct>)));
  registrar.impl("cumprod.out", TORCH_FN((accumulate_out<Product, kProduct>)));
  registrar.impl("_logcumsumexp", TORCH_FN(logs_new));
  registrar.impl("_logcumsumexp.out", TORCH_FN(logs_out));
}

}  // namespace hostdevice
