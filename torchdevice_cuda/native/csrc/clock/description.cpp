#include "clock/description.h"

#include <ATen/Context.h>
#include <c10/util/hash.h>

#include "compat_precision.h"
#include "operators/alias.h"
#include "runtime/pinned.h"

namespace hostdevice {
namespace {

using c10::IValue;

void add(uint64_t& hash, uint64_t value) {
  hash = c10::hash_combine(hash, value);
}

void add_tensor(uint64_t& hash, const at::Tensor& t) {
  if (!t.defined()) {
    add(hash, 1);
    return;
  }
  add(hash, static_cast<uint64_t>(t.scalar_type()) << 8 | static_cast<uint64_t>(t.device().type()));
  const auto described = describe_tensor(t);
  for (const auto size : described.sizes) add(hash, static_cast<uint64_t>(size) + 2);
  for (const auto stride : described.strides) add(hash, static_cast<uint64_t>(stride) + 3);
  if (described.is_on_host) add(hash, described.is_pinned);
}

void add_value(uint64_t& hash, const IValue& v) {
  if (v.isTensor()) {
    add_tensor(hash, v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) add_tensor(hash, t);
  } else if (v.isList()) {
    for (const IValue& each : v.toListRef()) add_value(hash, each);
  } else if (v.isInt()) {
    add(hash, static_cast<uint64_t>(v.toInt()));
  } else if (v.isDouble()) {
    add(hash, c10::hash<double>()(v.toDouble()));
  } else if (v.isBool()) {
    add(hash, v.toBool() ? 5 : 7);
  } else {
    add(hash, v.isNone() ? 11 : 13);
  }
}

}  // namespace

TensorDescription describe_tensor(const at::Tensor& t) {
  const bool is_strided = t.layout() == c10::kStrided && !t.is_nested();
  const bool is_on_host = t.device().is_cpu();
  return {
      t.is_nested() ? std::vector<int64_t>{t.numel()} : t.sizes().vec(),
      is_strided && !t.is_contiguous() ? t.strides().vec() : std::vector<int64_t>(), is_on_host,
      is_on_host && t.has_storage() && is_pinned(t.storage().data())};
}

bool uses_tf32(const std::string& name) {
  return name.find("conv") == std::string::npos ? at::globalContext().allowTF32CuBLAS() : allows_tf32_convolutions();
}

uint64_t hash_call(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  uint64_t hash = reinterpret_cast<uintptr_t>(&op.schema());
  add(hash, uses_tf32(op.schema().name()));
  for (const auto& v : arguments) {
    add(hash, 17);
    add_value(hash, v);
  }
  return hash;
}

bool waits_for_copy(const c10::OperatorHandle& op, c10::ArrayRef<IValue> arguments) {
  if (op.schema().name() != "aten::copy_") return false;
  const at::Tensor &self = arguments[0].toTensor(), &source = arguments[1].toTensor();
  if (is_device_tensor(self) == is_device_tensor(source)) return false;
  const at::Tensor& host = is_device_tensor(self) ? source : self;
  return !arguments[2].toBool() || !host.has_storage() || !is_pinned(host.storage().data());
}

}  // namespace hostdevice
