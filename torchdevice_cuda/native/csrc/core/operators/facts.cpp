#include "operators/facts.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <unordered_map>
#include <unordered_set>

#include "operators/assertions.h"
#include "operators/op_table.h"
#include "operators/registration.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
using Names = std::unordered_set<std::string>;

const Names& mixing_ops() {
  static const auto* ops = new Names{
#include "contract/mixes_devices.inc"
  };
  return *ops;
}
const Names& indexing_ops() {
  static const auto* ops = new Names{
#include "contract/indexes.inc"
  };
  return *ops;
}

// Divisions of whole numbers, by the second argument. Others divide truly, unless they are given a rounding mode: those
// overloads have it in their name (Tensor_mode, Scalar_mode, out_mode ...).
bool divides_integers(const c10::FunctionSchema& schema) {
  static const auto* always = new Names{
#include "contract/divides_integers.inc"
  };
  static const auto* with_mode = new Names{
#include "contract/divides_integers_by_mode.inc"
  };
  if (always->count(schema.name())) return true;
  return with_mode->count(schema.name()) && schema.overload_name().find("mode") != std::string::npos;
}

// Operators that draw only for a dropout which they are never called with here: nothing moves the generator.
bool never_draws(const c10::FunctionSchema& schema) {
  static const auto* ops = new Names{
#include "contract/never_draws.inc"
  };
  return ops->count(schema.name()) != 0;
}

// Arguments, as bits by position, that the CPU's kernel takes for contiguous: where they are not, as an expanded
// weight, it reads what lies behind them. CUDA's kernels go by strides.
uint32_t read_as_contiguous(const std::string& name) {
  static const auto* rows = new std::unordered_map<std::string, uint32_t>{
#include "contract/contiguous.inc"
  };
  const auto found = rows->find(name);
  return found == rows->end() ? 0 : found->second;
}

// Operators whose kernel at the device's key is more than the CPU's: none of the boxed ones.
bool has_own_kernel(const std::string& name) {
  static const auto* same = new Names{"copy_",       "add.Tensor",  "sub.Tensor",   "mul.Tensor", "div.Tensor",
                                      "add_.Tensor", "mul_.Tensor", "relu",         "mm",         "bmm",
                                      "addmm",       "clone",       "fill_.Scalar", "zero_",      "sum.dim_IntList"};
  return is_claimed(kDense, name) && !same->count(name);
}

// A type travels as a number; only the schema as it was written says what it is.
bool is_type(const c10::Argument& argument) {
  c10::TypePtr type = argument.real_type();
  if (auto o = type->cast<c10::OptionalType>()) type = o->getElementType();
  return type->kind() == c10::TypeKind::ScalarTypeType;
}

// With which types of arguments it is not simply the CPU's kernel that computes, and what does.
void add_types(Facts& f, const c10::FunctionSchema& schema) {
  if (schema.name().compare(0, kAten.size(), kAten) != 0) return;
  f.name = schema.name().substr(kAten.size());
  if (f.name.back() == '_') f.name.pop_back();
  f.wide = find_wide_row(f.name);
  f.taken = find_taken_row(f.name);
  f.mixed = find_mixed_row(f.name);
  f.list = find_list_row(f.name);
  if (f.mixed) f.exclusive = kFractions;
  if (f.wide) f.widened = widened(*f.wide);
  // The narrow type may be one that is asked for.
  if (f.wide && f.wide->family == Family::Crossing && !f.dtypes.empty()) f.widened = types_of(at::kFloat);
  f.special = f.widened | (f.taken ? ~f.taken->taken : 0);
  f.contiguous = read_as_contiguous(f.name);
}

}  // namespace

bool is_indexing(const std::string& name) {
  return indexing_ops().count(name) != 0;
}

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

std::unique_ptr<Facts> make_facts(const c10::OperatorHandle& op) {
  auto f = std::make_unique<Facts>();
  const auto& schema = op.schema();
  const auto& arguments = schema.arguments();
  std::vector<uint16_t> positional;
  bool has_generator = false;
  for (size_t i = 0; i < arguments.size(); i++) {
    const auto& a = arguments[i];
    ArgFact fact;
    fact.kind = kind_of(a.type());
    fact.written = a.alias_info() && a.alias_info()->isWrite();
    // Running statistics are updated in place by operators whose schemas do not say so.
    fact.changed = fact.written || a.name().rfind("running_", 0) == 0;
    f->writes = f->writes || fact.written;
    has_generator = has_generator || fact.kind == Kind::Generator;
    if (is_type(a)) f->dtypes.push_back(static_cast<uint16_t>(i));
    if (fact.kind != Kind::Other) f->interesting.push_back(static_cast<uint16_t>(i));
    const bool tensors = holds_tensors(fact.kind);
    if (tensors && a.kwarg_only() && fact.written) f->check_order.push_back(static_cast<uint16_t>(i));
    if (tensors && !a.kwarg_only()) positional.push_back(static_cast<uint16_t>(i));
    f->args.push_back(fact);
  }
  f->check_order.insert(f->check_order.end(), positional.begin(), positional.end());
  f->returns = schema.returns().size();
  for (const auto& r : schema.returns()) {
    const auto type = r.type()->kind();
    if (holds_tensors(kind_of(r.type()))) f->tensor_returns = true;
    if (type == c10::TypeKind::ClassType) f->keep_alive = true;
    if (type == c10::TypeKind::NumberType || type == c10::TypeKind::BoolType) f->reads_back = true;
    if (r.alias_info() && !r.alias_info()->isWrite()) f->view = true;
  }
  f->divides = divides_integers(schema);
  f->asks_grad = schema.name() == "aten::_sparse_mm_reduce_impl" || schema.name() == "aten::_fused_sdp_choice";
  f->composite = !op.hasKernelForDispatchKey(DispatchKey::CPU) &&
      op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd);
  if (!kIsCuda) {
    f->any_type = only_moves(schema.name());
    for (const auto& limit : kLimits)
      if (schema.name() == limit.name) f->limits.push_back(&limit);
  }
  f->mixes = mixing_ops().count(schema.name()) != 0;
  f->indexing = is_indexing(schema.name());
  f->waiting = find_waiting(op);
  f->reads_back = f->reads_back && !f->waiting;  // once is enough
  f->nondeterministic = find_nondeterministic(op);
  f->tells = f->waiting || f->nondeterministic;
  f->only_reads = schema.name() == "aten::_local_scalar_dense";
  f->launches = !f->view && !op.hasTag(at::Tag::inplace_view) &&
      (f->writes || f->tensor_returns || f->returns == 0 || f->reads_back || f->waiting);
  f->seeded = !has_generator && op.hasTag(at::Tag::nondeterministic_seeded) && !never_draws(schema);
  const std::string name = aten_name(schema.name(), schema.overload_name());
  if (const auto* row = name.empty() ? nullptr : find_op_row(name.c_str())) {
    f->device_check = (row->flags & kDeviceCheck) != 0;
    if (f->device_check && name.rfind("_fused_", 0) == 0) f->mixes = false;  // only a rate may be the CPU's
    f->iterates = (row->flags & kIterates) != 0;
    f->method = row->method;
  }
  if (kIsCuda) add_types(*f, schema);
  f->asserts = kIsCuda && may_assert(f->name);
  f->straight = !f->asserts && !f->seeded && !f->divides && !f->keep_alive && !f->asks_grad && !f->contiguous &&
      !has_own_kernel(name);
  return f;
}

}  // namespace hostdevice
