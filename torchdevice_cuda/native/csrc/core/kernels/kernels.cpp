// Kernels that do not use the CPU's: creating tensors, viewing them, copying them between devices.
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_neg_view_ops.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <cstring>

#include "operators/alias.h"
#include "operators/conversions.h"
#include "operators/copies.h"
#include "operators/install.h"
#include "operators/refusals.h"
#include "operators/registration.h"
#include "operators/types.h"
#include "runtime/activities.h"
#include "runtime/allocator.h"
#include "runtime/captures.h"
#include "runtime/device.h"
#include "runtime/failure.h"
#include "runtime/pinned.h"
#include "runtime/streams.h"

namespace hostdevice {
namespace {

using at::Tensor;

// In bytes. For smaller copies one memmove is faster than the CPU's copy, which uses several threads for larger ones.
constexpr int64_t kSmallCopy = int64_t{1} << 16;

void fill_if_deterministic(const Tensor& t) {
  if (C10_UNLIKELY(
          at::globalContext().deterministicAlgorithms() && at::globalContext().deterministicFillUninitializedMemory()))
    at::native::fill_empty_deterministic_(const_cast<Tensor&>(t));
}

Tensor empty_memory_format(
    c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
    std::optional<c10::Device> where, std::optional<bool> pin, std::optional<c10::MemoryFormat> format) {
  const auto type = c10::dtype_or_default(dtype);
  check_storable(type);
  TORCH_CHECK(kIsCuda || size.size() <= 16, "MPS supports tensors with dimensions <= 16, but got ", size.size(), ".");
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  TORCH_INTERNAL_ASSERT(c10::layout_or_default(layout) == c10::Layout::Strided);
  const OnDevice here(where.has_value() ? where->index() : c10::DeviceIndex(-1));
  Tensor t(
      at::detail::empty_generic(
          C10_AS_INTARRAYREF_SLOW(size), device_allocator(), c10::DispatchKeySet(kDense), type, format));
  fill_if_deterministic(t);
  return t;
}

Tensor empty_strided(
    c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::ScalarType> dtype,
    std::optional<c10::Layout>, std::optional<c10::Device> where, std::optional<bool> pin) {
  const auto type = c10::dtype_or_default(dtype);
  check_storable(type, true);
  TORCH_CHECK(!pin.value_or(false), "Only dense CPU tensors can be pinned");
  const OnDevice here(where.has_value() ? where->index() : c10::DeviceIndex(-1));
  Tensor t(
      at::detail::empty_strided_generic(
          C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride), device_allocator(),
          c10::DispatchKeySet(kDense), type));
  fill_if_deterministic(t);
  return t;
}

// A copy that converts computes on the source's device, and MPS cannot compute with every type that it can hold.
void check_conversion(const Tensor& self, const Tensor& src) {
  if (kIsCuda || self.scalar_type() == src.scalar_type() || !is_device_tensor(src)) return;
  check_computable(src.scalar_type());
  if (is_device_tensor(self)) check_computable(self.scalar_type());
}

// Up to this many bytes are passed to CUDA's driver together with the copy command.
constexpr size_t kGoesAlong = 64 << 10;

bool plain_strided(const Tensor& t) {
  return t.layout() == at::kStrided && !t.is_quantized() && !t.is_nested() && !t.is_conj() && !t.is_neg() &&
      !t._is_zerotensor();
}

// A graph stores the address of host memory, so the memory must be pinned.
void check_captured_copy(const Tensor& host, c10::DeviceIndex index) {
  if (kIsCuda && host.numel() && current_capture(index) && !is_pinned(host.storage().data())) refuse_pageable_copy();
}

C10_NOINLINE void profile_copy(const Tensor& self, const Tensor& src, bool non_blocking) {
  if (!self.numel()) {
    DeviceWork::mark_empty();
    return;
  }
  if (const char* name = get_copy_name(self, src)) DeviceWork::mark_copy(name, static_cast<int64_t>(self.nbytes()));
  if (!non_blocking && !(is_device_tensor(self) && is_device_tensor(src))) DeviceWork::mark_awaited();
}

Tensor& copy_(Tensor& self, const Tensor& src, bool non_blocking) {
  check_fork();
  check_conversion(self, src);
  const bool to_host = !is_device_tensor(self);
  const auto index = to_host ? src.device().index() : self.device().index();
  const bool from_host = !is_device_tensor(src);
  if (is_profiled()) profile_copy(self, src, non_blocking);
  if (has_captures() && (to_host || from_host)) check_captured_copy(to_host ? self : src, index);
  if (!self.numel()) {
    // Nothing is copied, so there is no wait.
  } else if (!non_blocking) {
    if (kIsCuda && (to_host || from_host)) check_sync_debug();
    if (to_host || (kIsCuda && from_host)) synchronize_current_stream(index);
  } else if (kIsCuda && (to_host || from_host)) {
    if (to_host && !is_pinned(self.storage().data())) check_before_wait(index);
    // The pinned block is not reused before the copy is done. Pageable memory is read at once, and a copy that does not
    // fit into the command waits for those before it.
    if (const auto done = current_stream_ready_ns(index); C10_UNLIKELY(done)) {
      const void* host = (to_host ? self : src).storage().data();
      if (from_host && src.nbytes() > kGoesAlong && !is_pinned(host)) {
        synchronize_current_stream(index);
      } else {
        extend_pinned_use(host, done);
      }
    }
  }
  // Other copies use a temporary buffer first.
  if (!kIsCuda && to_host && self.numel() && self.strides() == src.strides() && src.is_non_overlapping_and_dense())
    check_aligned(self.const_data_ptr());
  if (C10_LIKELY(
          self.scalar_type() == src.scalar_type() && self.sizes() == src.sizes() && plain_strided(self) &&
          plain_strided(src) && self.strides() == src.strides() && self.is_non_overlapping_and_dense())) {
    const auto bytes = self.numel() * static_cast<int64_t>(self.itemsize());
    if (bytes < kSmallCopy) {
      void* to = self.mutable_data_ptr();
      const void* from = src.const_data_ptr();
      if (to != from) at::assert_no_partial_overlap(self, src);
      if (bytes && to != from) std::memmove(to, from, static_cast<size_t>(bytes));
      return self;
    }
  }
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset);
  materialize(self);
  Aliases aliases(index);
  aliases.keep_lazy();
  Tensor to = aliases.to_cpu(self, false);
  const Tensor from = aliases.to_cpu(src, false);
  // A copy that converts computes on the source's device.
  if (kIsCuda && !from_host && converts_to_integers(to, from)) {
    convert_to_integers(to, from);
    return self;
  }
  const AllocateOnDevice here(index);
  // Between these types the CPU kernel ignores the neg bit.
  const bool halves = types_of(from.scalar_type(), to.scalar_type()) == types_of(at::kHalf, at::kFloat);
  if (C10_UNLIKELY(halves && from.is_neg() != to.is_neg())) {
    const Tensor value = from.resolve_neg();
    if (to.is_neg())
      at::_ops::_neg_view::call(to).copy_(value.neg());
    else
      to.copy_(value);
    return self;
  }
  at::_ops::copy_::call(to, from, non_blocking);
  return self;
}

#ifdef HOSTDEVICE_CUDA
Tensor& copy_quantized(Tensor& self, const Tensor& src, bool non_blocking) {
  copy_(self, src, non_blocking);
  // copy_ changed the quantizer of the alias only.
  if (self.is_quantized() && src.is_quantized())
    at::get_qtensorimpl(self)->set_quantizer_(at::get_qtensorimpl(src)->quantizer());
  return self;
}
#endif

Tensor view(const Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}
// Do what the CPU kernel does, which asserts before torch 2.9 that the device is not MPS.
Tensor as_strided(
    const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::SymInt> offset) {
  Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  at::native::setStrided(
      made, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset.has_value() ? offset->guard_int(__FILE__, __LINE__) : self.storage_offset());
  return made;
}
Tensor reshape_alias(const Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride));
}
Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  return at::native::unfold(self, dimension, size, step);
}

#ifdef HOSTDEVICE_CUDA
void record_stream_(Tensor& self, c10::Stream s) {
  record_stream(self.storage().data_ptr(), s.device_index(), s.id());
}
#else
Tensor copy_from(const Tensor& self, const Tensor& dst, bool non_blocking) {
  const_cast<Tensor&>(dst).copy_(self, non_blocking);
  return dst;
}
Tensor copy_from_and_resize(const Tensor& self, const Tensor& dst) {
  const_cast<Tensor&>(dst).resize_(self.sizes());
  const_cast<Tensor&>(dst).copy_(self);
  return dst;
}
#endif

}  // namespace

const char* get_copy_name(const Tensor& self, const Tensor& src) {
  const bool to_host = !is_device_tensor(self), from_host = !is_device_tensor(src);
  // A conversion happens before or after the copy.
  if (to_host || from_host) return copy_name(from_host, to_host, is_pinned((to_host ? self : src).storage().data()));
  if (self.scalar_type() != src.scalar_type() || self.strides() != src.strides() ||
      !self.is_non_overlapping_and_dense())
    return nullptr;
  return self.device() == src.device() ? copy_name(false, false, false) : "Memcpy PtoP (Device -> Device)";
}

void register_direct_kernels() {
  Registrar registrar(kDense);
  registrar.on_host_typed("empty.memory_format", TORCH_FN(empty_memory_format));
  registrar.on_host_typed("empty_strided", TORCH_FN(empty_strided));
  registrar.impl_typed("copy_", TORCH_FN(copy_));
  claim(kDense, "copy_", /*computes_as_cpu=*/true);
  registrar.on_host_typed("view", TORCH_FN(view));
  registrar.on_host_typed("as_strided", TORCH_FN(as_strided));
  registrar.on_host_typed("_reshape_alias", TORCH_FN(reshape_alias));
  registrar.on_host_typed("unfold", TORCH_FN(unfold));
#ifdef HOSTDEVICE_CUDA
  registrar.on_host("record_stream", TORCH_FN(record_stream_));
  Registrar quantized(kQuantized);
  quantized.impl("copy_", TORCH_FN(copy_quantized));
#else
  registrar.impl("_copy_from", TORCH_FN(copy_from));
  registrar.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
#endif
}

}  // namespace hostdevice
