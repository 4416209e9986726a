#include "operators/operator_info.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include "operators/assertions.h"
#include "operators/op_table.h"
#include "operators/registration.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
// A dtype is passed as an integer; only the schema as written shows that it is a dtype.
bool is_type(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (auto o = type->cast<c10::OptionalType>()) type = o->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

// Whether an operator divides integers by its second argument. Others use true division, except with a rounding mode:
// those overloads have it in their name (Tensor_mode, Scalar_mode, out_mode ...).
bool divides_integers(const Row& row, const std::string& overload) {
  return row.is(kDividesIntegers) || (row.is(kDividesIntegersByMode) && overload.find("mode") != std::string::npos);
}

// On an emulated Apple GPU, compute half-precision convolutions in float32: some processors take two hundred times as
// long for the narrow types, and programs with autocast would not end.
void add_slow_types(OperatorInfo& f) {
  const auto family = f.row->wide.family;
  if (family == Family::Convolution || family == Family::ConvolutionGradient)
    f.special = f.widened = find_widened_types(f.row->wide);
}

// Set the argument types for which more than the CPU kernel computes.
void add_types(OperatorInfo& f) {
  const Row& row = *f.row;
  if (row.mixed_types) f.exclusive = kFractions;
  f.widened = find_widened_types(row.wide);
  // The narrow type may be a dtype argument.
  if (f.widened && row.wide.family == Family::Crossing && !f.dtypes.empty()) f.widened = types_of(at::kFloat);
  f.special = f.widened | ~row.takes;
  f.contiguous = row.contiguous;
}

}  // namespace

Kind kind_of(const c10::TypePtr& given) {
  c10::TypePtr type = given;
  if (auto o = type->cast<c10::OptionalType>()) type = o->getElementType();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return Kind::Tensor;
    case c10::TypeKind::ListType: {
      auto element = type->castRaw<c10::ListType>()->getElementType();
      if (element->kind() == c10::TypeKind::TensorType) return Kind::TensorList;
      if (auto o = element->cast<c10::OptionalType>(); o && o->getElementType()->kind() == c10::TypeKind::TensorType)
        return Kind::OptionalTensorList;
      return Kind::Other;
    }
    case c10::TypeKind::DeviceObjType:
      return Kind::Device;
    case c10::TypeKind::GeneratorType:
      return Kind::Generator;
    case c10::TypeKind::StorageType:
      return Kind::Storage;
    default:
      return Kind::Other;
  }
}

std::unique_ptr<OperatorInfo> make_operator_info(const c10::OperatorHandle& op) {
  auto f = std::make_unique<OperatorInfo>();
  const auto& schema = op.schema();
  f->name = row_name(schema.name());
  const Row& row = find_row(f->name);
  f->row = &row;
  const auto& arguments = schema.arguments();
  std::vector<uint16_t> positional;
  bool has_generator = false;
  for (size_t i = 0; i < arguments.size(); i++) {
    const auto& a = arguments[i];
    ArgumentInfo info;
    info.kind = kind_of(a.type());
    info.written = a.alias_info() && a.alias_info()->isWrite();
    // Some operators update running statistics in place, and their schemas do not say so.
    info.changed = info.written || a.name().rfind("running_", 0) == 0;
    f->writes = f->writes || info.written;
    has_generator = has_generator || info.kind == Kind::Generator;
    if (is_type(a)) f->dtypes.push_back(static_cast<uint16_t>(i));
    if (info.kind != Kind::Other) f->interesting.push_back(static_cast<uint16_t>(i));
    const bool tensors = holds_tensors(info.kind);
    if (tensors && a.kwarg_only() && info.written) f->check_order.push_back(static_cast<uint16_t>(i));
    if (tensors && !a.kwarg_only()) positional.push_back(static_cast<uint16_t>(i));
    f->args.push_back(info);
  }
  f->check_order.insert(f->check_order.end(), positional.begin(), positional.end());
  f->returns = schema.returns().size();
  for (const auto& r : schema.returns()) {
    const auto type = r.type()->kind();
    if (holds_tensors(kind_of(r.type()))) f->tensor_returns = true;
    if (type == c10::TypeKind::ClassType) f->keep_alive = true;
    if (type == c10::TypeKind::NumberType || type == c10::TypeKind::BoolType) f->reads_back = true;
    if (r.alias_info() && !r.alias_info()->isWrite()) f->is_view = true;
  }
  f->divides_integers = divides_integers(row, schema.overload_name());
  f->asks_grad = row.is(kAsksGrad);
  f->is_composite = !op.hasKernelForDispatchKey(DispatchKey::CPU) &&
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
  if (!kIsCuda) {
    f->takes_any_type = row.is(kOnlyMoves);
    for (const auto& limit : kLimits)
      if (f->name == limit.op) f->limits.push_back(&limit);
  }
  f->mixes_devices = row.is(kMixesDevices);
  f->is_indexing = row.is(kIndexes);
  f->waiting = find_waiting(op, row);
  f->reads_back = f->reads_back && !f->waiting;  // `waiting` synchronizes already
  f->nondeterministic = find_nondeterministic(op, row);
  f->has_alerts = f->waiting || f->nondeterministic;
  f->only_reads = row.is(kOnlyReads);
  f->launches = !f->is_view && !op.hasTag(at::Tag::inplace_view) &&
      (f->writes || f->tensor_returns || f->returns == 0 || f->reads_back || f->waiting);
  f->is_seeded = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded) && !row.is(kNeverDraws);
  const std::string name = aten_name(schema.name(), schema.overload_name());
  if (const auto* row = name.empty() ? nullptr : find_op_row(name.c_str())) {
    f->device_check = (row->flags & kDeviceCheck) != 0;
    if (f->device_check && name.rfind("_fused_", 0) == 0)
      f->mixes_devices = false;  // only the learning rate may be on the CPU
    f->iterates = (row->flags & kIterates) != 0;
    f->method = row->method;
  }
  kIsCuda ? add_types(*f) : add_slow_types(*f);
  f->asserts = kIsCuda && may_assert(f->name);
  // A convolution of device tensors would call other operators than that of CPU tensors.
  const auto family = row.wide.family;
  const bool convolves = family == Family::Convolution || family == Family::ConvolutionGradient;
  f->calls_parts = (f->is_composite || row.is(kCallsParts)) && !convolves && !f->asserts && !f->has_alerts &&
      !f->is_seeded && !f->divides_integers && !row.list_kernel;
  f->only_calls_cpu_kernel = !f->asserts && !f->is_seeded && !f->divides_integers && !f->keep_alive && !f->asks_grad &&
      !f->contiguous && !computes_otherwise(kDense, name);
  return f;
}

}  // namespace hostdevice
