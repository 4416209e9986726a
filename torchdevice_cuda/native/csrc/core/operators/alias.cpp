#include "operators/alias.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/quantized/QTensorImpl.h>
#include <c10/core/DeviceGuard.h>

#include <cstring>

#include "operators/refusals.h"
#include "runtime/allocator.h"

namespace hostdevice {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::TensorImpl;
using StoragePtr = c10::intrusive_ptr<c10::StorageImpl>;

// TensorImpl lets its keys change to another device but not its device; a derived class can access the field.
struct DeviceField : TensorImpl {
  static constexpr auto pointer() {
    return &DeviceField::device_opt_;
  }
};

void relabel(TensorImpl* t, c10::Device d) {
  t->_change_backend_component_keys(d);
  t->*DeviceField::pointer() = d;
}

void relabel(c10::StorageImpl* s, c10::Device d) {
  s->_mutable_data_ptr_no_checks().unsafe_set_device(d);
  s->set_allocator(d.is_cpu() ? cpu_allocator() : device_allocator());
}

DispatchKeySet with_view_bits(DispatchKey key, const TensorImpl* from) {
  DispatchKeySet out(key);
  const auto keys = from->key_set();
  for (auto k : {DispatchKey::Conjugate, DispatchKey::Negative, DispatchKey::ZeroTensor})
    if (C10_UNLIKELY(keys.has(k))) out = out.add(k);
  return out;
}

void copy_geometry(TensorImpl* to, const TensorImpl* from) {
  to->set_sizes_and_strides(from->sizes(), from->strides(), from->storage_offset());
  if (C10_UNLIKELY(from->is_wrapped_number())) to->set_wrapped_number(true);
}

void drop_storage(void* p) {
  StoragePtr::reclaim(static_cast<c10::StorageImpl*>(p));
}

// Return the device storage that a CPU storage aliases and keeps alive, or null.
c10::StorageImpl* find_aliased(const c10::StorageImpl* cpu) {
  const auto& data = cpu->data_ptr();
  if (C10_LIKELY(data.get_deleter() != &drop_storage)) return nullptr;
  auto* const aliased = static_cast<c10::StorageImpl*>(data.get_context());
  const bool same =
      aliased->device().type() == kType && aliased->data() == data.get() && aliased->nbytes() == cpu->nbytes();
  return same ? aliased : nullptr;
}

c10::Storage make_storage(c10::DataPtr memory, const c10::StorageImpl* like) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), like->nbytes(), std::move(memory), device_allocator(), like->resizable());
}

at::Tensor make_device_tensor(c10::Storage storage, const TensorImpl* like) {
  at::Tensor out = at::detail::make_tensor<TensorImpl>(std::move(storage), with_view_bits(kDense, like), like->dtype());
  copy_geometry(out.unsafeGetTensorImpl(), like);
  return out;
}

at::QuantizerPtr quantizer_of(const TensorImpl* t) {
  return static_cast<at::QTensorImpl*>(const_cast<TensorImpl*>(t))->quantizer();
}

bool is_quantized_impl(const TensorImpl* t) {
  return t->key_set().has(DispatchKey::Quantized);
}
bool is_nested_impl(const TensorImpl* t) {
  return t->key_set().has(DispatchKey::NestedTensor);
}

at::Tensor make_sparse(const at::Tensor& like, DispatchKey key, const at::Tensor& indices, const at::Tensor& values) {
  auto* from = static_cast<at::SparseTensorImpl*>(like.unsafeGetTensorImpl());
  const c10::OptionalDeviceGuard there(values.device());  // the constructor uses the current device
  at::Tensor out = at::detail::make_tensor<at::SparseTensorImpl>(DispatchKeySet(key), like.dtype());
  auto* to = static_cast<at::SparseTensorImpl*>(out.unsafeGetTensorImpl());
  to->raw_resize_(from->sparse_dim(), from->dense_dim(), like.sizes());
  to->set_indices_and_values_unsafe(indices, values);
  to->set_coalesced(from->coalesced());
  return out;
}

at::Tensor make_csr(
    const at::Tensor& like, DispatchKey key, c10::Device d, const at::Tensor& compressed, const at::Tensor& plain,
    const at::Tensor& values) {
  at::Tensor out =
      at::detail::make_tensor<at::SparseCsrTensorImpl>(DispatchKeySet(key), d, like.layout(), like.dtype());
  auto* to = static_cast<at::SparseCsrTensorImpl*>(out.unsafeGetTensorImpl());
  to->set_member_tensors(compressed, plain, values, like.sizes());
  return out;
}

}  // namespace

void materialize(const at::Tensor& t) {
  if (is_device_tensor(t) && t.has_storage())
    t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->mutable_data();
}
void materialize(const c10::IValue& v) {
  if (v.isTensor()) {
    materialize(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor& t : v.toTensorVector()) materialize(t);
  }
}

bool is_plain(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  return impl->layout() == at::kStrided && impl->has_storage() && !is_quantized_impl(impl) && !is_nested_impl(impl);
}

at::Tensor NonOwningTensors::tensor(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  auto* const from = impl->storage().unsafeGetStorageImpl();
  const c10::Storage* found = nullptr;
  for (const auto& [known, storage] : storages_)
    if (known == from) found = &storage;
  if (!found) {
    c10::DataPtr memory(const_cast<void*>(from->data()), from->device());
    found = &storages_.emplace_back(from, make_storage(std::move(memory), from)).second;
  }
  return make_device_tensor(*found, impl);
}

c10::Storage DeviceAliases::storage(const c10::Storage& s) {
  auto* const impl = s.unsafeGetStorageImpl();
  for (const auto& [known, alias] : storages_)
    if (known == impl) return alias;
  if (auto* const aliased = find_aliased(impl))
    return storages_.emplace_back(impl, c10::Storage(StoragePtr::reclaim_copy(aliased))).second;
  c10::DataPtr memory(s.mutable_data(), s.getWeakStorageImpl().lock().release(), &drop_storage, device(index_));
  return storages_.emplace_back(impl, make_storage(std::move(memory), impl)).second;
}

at::Tensor DeviceAliases::tensor(const at::Tensor& t) {
  if (!t.defined() || !t.device().is_cpu() || !is_plain(t)) return t;
  const auto* impl = t.unsafeGetTensorImpl();
  check_storable(c10::typeMetaToScalarType(impl->dtype()));
  return make_device_tensor(storage(impl->storage()), impl);
}

const StoragePtr& Aliases::storage_alias(const c10::Storage& s) {
  auto* impl = s.unsafeGetStorageImpl();
  for (auto& p : storages_)
    if (p.dev == impl) return p.cpu;
  void* const at = lazy_ ? const_cast<void*>(impl->data()) : impl->mutable_data();
  c10::DataPtr data(at, cpu());
  if (C10_UNLIKELY(keep_alive_)) {
    auto held = s.getWeakStorageImpl().lock();
    data = c10::DataPtr(at, held.release(), &drop_storage, cpu());
  }
  storages_.push_back(
      {impl,
       c10::make_intrusive<c10::StorageImpl>(
           c10::StorageImpl::use_byte_size_t(), impl->nbytes(), std::move(data), cpu_allocator(), impl->resizable())});
  return storages_.back().cpu;
}

c10::Storage Aliases::to_cpu(const c10::Storage& s) {
  held_.push_back(s);
  return c10::Storage(storage_alias(s));
}

at::Tensor Aliases::strided_to_cpu(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  at::Tensor a = at::detail::make_tensor<TensorImpl>(
      c10::Storage(storage_alias(impl->storage())), with_view_bits(DispatchKey::CPU, impl), impl->dtype());
  copy_geometry(a.unsafeGetTensorImpl(), impl);
  return a;
}

at::Tensor Aliases::other_to_cpu(const at::Tensor& t) {
  auto* impl = t.unsafeGetTensorImpl();
  if (is_nested_impl(impl)) {
    auto* n = static_cast<at::native::NestedTensorImpl*>(impl);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        c10::Storage(storage_alias(impl->unsafe_storage())), DispatchKeySet(DispatchKey::NestedTensorCPU),
        impl->dtype(), n->get_nested_sizes(), n->get_nested_strides(), n->get_storage_offsets());
  }
  if (is_quantized_impl(impl)) {
    at::Tensor a = at::detail::make_tensor<at::QTensorImpl>(
        c10::Storage(storage_alias(impl->unsafe_storage())), DispatchKeySet(DispatchKey::QuantizedCPU), impl->dtype(),
        quantizer_of(impl));
    copy_geometry(a.unsafeGetTensorImpl(), impl);
    return a;
  }
  if (t.layout() == at::kSparse) {
    // t._indices() would dispatch and return to this function.
    auto* s = static_cast<at::SparseTensorImpl*>(impl);
    return make_sparse(t, DispatchKey::SparseCPU, to_cpu(s->indices(), false), to_cpu(s->values(), false));
  }
  if (at::sparse_csr::is_sparse_compressed(t)) {
    auto* s = static_cast<at::SparseCsrTensorImpl*>(impl);
    return make_csr(
        t, DispatchKey::SparseCsrCPU, cpu(), to_cpu(s->compressed_indices(), false), to_cpu(s->plain_indices(), false),
        to_cpu(s->values(), false));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(false, "layout ", t.layout(), " is not available on the ", kType, " device");
}

at::Tensor Aliases::to_cpu(const at::Tensor& t, bool written) {
  if (!is_device_tensor(t)) return t;
  auto* impl = t.unsafeGetTensorImpl();
  for (auto& p : tensors_) {
    if (p.dev.unsafeGetTensorImpl() == impl) {
      p.written = p.written || written;
      return p.cpu;
    }
  }
  at::Tensor a = C10_LIKELY(impl->layout() == at::kStrided && !is_quantized_impl(impl) && !is_nested_impl(impl))
      ? strided_to_cpu(t)
      : other_to_cpu(t);
  tensors_.push_back({t, a, written});
  return a;
}

void Aliases::add_alias(const at::Tensor& dev, const at::Tensor& alias) {
  if (!is_device_tensor(dev) || is_device_tensor(alias)) return;
  tensors_.push_back({dev, alias, false});
  if (!alias.has_storage()) return;
  auto* cpu_storage = alias.storage().unsafeGetStorageImpl();
  for (auto& p : storages_)
    if (p.cpu.get() == cpu_storage) return;
  storages_.push_back({dev.storage().unsafeGetStorageImpl(), StoragePtr::reclaim_copy(cpu_storage)});
}

c10::Storage Aliases::adopt(const c10::Storage& s) {
  auto* impl = s.unsafeGetStorageImpl();
  for (auto& p : storages_)
    if (p.cpu.get() == impl) return c10::Storage(StoragePtr::reclaim_copy(p.dev));
  if (impl->device().type() == kType) return s;
  if (auto* const aliased = find_aliased(impl)) return c10::Storage(StoragePtr::reclaim_copy(aliased));
  // There is no memory: the tensor is empty or a ZeroTensor.
  if (C10_LIKELY(is_device_memory(impl->data_ptr()) || !impl->data())) {
    relabel(impl, device(index_));
    return s;
  }
  // Copy memory that is not the device's: one element, an allocation of another thread, or memory that the kernel's
  // library keeps.
  auto data = allocate(impl->nbytes(), index_);
  std::memcpy(data.get(), impl->data(), impl->nbytes());
  if (C10_LIKELY(s.use_count() == 1)) {
    impl->set_data_ptr_noswap(std::move(data));
    impl->set_allocator(device_allocator());
    return s;
  }
  return c10::Storage(
      c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), impl->nbytes(), std::move(data), device_allocator(), impl->resizable()));
}

void Aliases::write_back() {
  for (auto& p : storages_) {
    auto *dev = p.dev, *alias = p.cpu.get();
    const size_t bytes = alias->nbytes();
    if (C10_LIKELY(alias->data() == dev->data() && bytes == dev->nbytes())) continue;
    if (alias->data() != dev->data()) {
      // A storage without memory may still be labelled CPU.
      const auto home = dev->device().type() == kType ? dev->device() : device(index_);
      c10::DataPtr moved = alias->set_data_ptr(c10::DataPtr(nullptr, cpu()));
      if (is_device_memory(moved) || bytes == 0) {
        moved.unsafe_set_device(home);
        dev->set_data_ptr_noswap(std::move(moved));
      } else {
        auto data = allocate(bytes, home.index());
        std::memcpy(data.get(), moved.get(), bytes);
        dev->set_data_ptr_noswap(std::move(data));
      }
      alias->set_data_ptr_noswap(c10::DataPtr(dev->mutable_data(), cpu()));
    }
    dev->set_nbytes(bytes);
  }
  for (size_t i = 0; i < tensors_.size(); i++) {
    auto& p = tensors_[i];
    if (!p.written) continue;
    auto *dev = p.dev.unsafeGetTensorImpl(), *alias = p.cpu.unsafeGetTensorImpl();
    if (C10_UNLIKELY(dev->layout() != at::kStrided || is_nested_impl(dev) || is_quantized_impl(dev))) {
      write_back_other(p);
      continue;
    }
    write_back_strided(dev, alias);
  }
}

void Aliases::write_back_strided(TensorImpl* dev, TensorImpl* alias) {
  const c10::Storage wanted = adopt(alias->unsafe_storage());
  if (C10_UNLIKELY(wanted.unsafeGetStorageImpl() != dev->unsafe_storage().unsafeGetStorageImpl()))
    dev->set_storage_keep_dtype(wanted);
  if (C10_UNLIKELY(
          dev->sizes() != alias->sizes() || dev->strides() != alias->strides() ||
          dev->storage_offset() != alias->storage_offset()))
    dev->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
  if (C10_UNLIKELY(dev->is_conj() != alias->is_conj())) dev->_set_conj(alias->is_conj());
  if (C10_UNLIKELY(dev->is_neg() != alias->is_neg())) dev->_set_neg(alias->is_neg());
}

// Return the device tensor of a member tensor, which the kernel may have resized in place.
at::Tensor Aliases::part_to_device(const at::Tensor& part) {
  const at::Tensor there = to_device(part);
  if (!there.is_same(part)) write_back_strided(there.unsafeGetTensorImpl(), part.unsafeGetTensorImpl());
  return there;
}

void Aliases::write_back_other(TensorPair& pair) {
  const at::Tensor dev = pair.dev, alias = pair.cpu;  // copied, because to_device() below may reallocate the list
  if (is_quantized_impl(dev.unsafeGetTensorImpl())) {
    static_cast<at::QTensorImpl*>(dev.unsafeGetTensorImpl())->set_quantizer_(quantizer_of(alias.unsafeGetTensorImpl()));
    const auto& wanted = adopt(alias.unsafeGetTensorImpl()->unsafe_storage());
    dev.unsafeGetTensorImpl()->set_storage_keep_dtype(wanted);
    dev.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
  } else if (dev.layout() == at::kSparse) {
    auto* from = static_cast<at::SparseTensorImpl*>(alias.unsafeGetTensorImpl());
    auto* to = static_cast<at::SparseTensorImpl*>(dev.unsafeGetTensorImpl());
    const at::Tensor i = part_to_device(from->indices()), v = part_to_device(from->values());
    to->raw_resize_(from->sparse_dim(), from->dense_dim(), from->sizes());
    to->set_indices_and_values_unsafe(i, v);
    to->set_coalesced(from->coalesced());
  } else if (at::sparse_csr::is_sparse_compressed(dev)) {
    auto* from = static_cast<at::SparseCsrTensorImpl*>(alias.unsafeGetTensorImpl());
    auto* to = static_cast<at::SparseCsrTensorImpl*>(dev.unsafeGetTensorImpl());
    to->set_member_tensors(
        part_to_device(from->compressed_indices()), part_to_device(from->plain_indices()),
        part_to_device(from->values()), alias.sizes());
  }
}

at::Tensor Aliases::other_to_device(const at::Tensor& r) {
  auto* impl = r.unsafeGetTensorImpl();
  if (is_nested_impl(impl)) {
    auto* n = static_cast<at::native::NestedTensorImpl*>(impl);
    return at::detail::make_tensor<at::native::NestedTensorImpl>(
        adopt(impl->unsafe_storage()), DispatchKeySet(kNested), impl->dtype(), n->get_nested_sizes(),
        n->get_nested_strides(), n->get_storage_offsets());
  }
  if (is_quantized_impl(impl)) {
    at::Tensor t = at::detail::make_tensor<at::QTensorImpl>(
        adopt(impl->unsafe_storage()), DispatchKeySet(kQuantized), impl->dtype(), quantizer_of(impl));
    copy_geometry(t.unsafeGetTensorImpl(), impl);
    return t;
  }
  if (r.layout() == at::kSparse) {
    auto* s = static_cast<at::SparseTensorImpl*>(impl);
    return make_sparse(r, kSparse, to_device(s->indices()), to_device(s->values()));
  }
  if (at::sparse_csr::is_sparse_compressed(r)) {
    auto* s = static_cast<at::SparseCsrTensorImpl*>(impl);
    // PyTorch has no sparse compressed tensors on MPS and raises, unless a fallback is registered.
    if (!kIsCuda) {
      return at::_sparse_compressed_tensor_unsafe(
          to_device(s->compressed_indices()), to_device(s->plain_indices()), to_device(s->values()), r.sizes(),
          at::TensorOptions(device(index_)).dtype(r.dtype()).layout(r.layout()));
    }
    return make_csr(
        r, kSparseCsr, device(index_), to_device(s->compressed_indices()), to_device(s->plain_indices()),
        to_device(s->values()));
  }
  // The device lacks other layouts (mkldnn): return them unchanged.
  return r;
}

at::Tensor Aliases::to_device(at::Tensor r) {
  if (!r.defined() || r.device().type() == kType) return r;
  auto* impl = r.unsafeGetTensorImpl();
  for (auto& p : tensors_)
    if (p.cpu.unsafeGetTensorImpl() == impl) return p.dev;
  if (C10_UNLIKELY(impl->layout() != at::kStrided || is_quantized_impl(impl) || is_nested_impl(impl)))
    return other_to_device(r);
  check_storable(c10::typeMetaToScalarType(impl->dtype()));
  const c10::Storage storage = adopt(impl->unsafe_storage());
  if (C10_LIKELY(r.use_count() == 1)) {
    if (C10_UNLIKELY(storage.unsafeGetStorageImpl() != impl->unsafe_storage().unsafeGetStorageImpl()))
      impl->set_storage_keep_dtype(storage);
    relabel(impl, device(index_));
    return r;
  }
  at::Tensor t =
      at::detail::make_tensor<TensorImpl>(c10::Storage(storage), with_view_bits(kDense, impl), impl->dtype());
  copy_geometry(t.unsafeGetTensorImpl(), impl);
  return t;
}

}  // namespace hostdevice
