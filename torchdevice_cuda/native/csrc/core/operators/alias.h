// Device tensors as CPU tensors over the same memory, and CPU results as device tensors, without copies.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <utility>
#include <vector>

#include "runtime/device.h"

namespace hostdevice {

inline bool is_device_tensor(const at::Tensor& t) {
  return t.defined() && t.device().type() == kType;
}

// Give a tensor, or each tensor of a list, its own memory if it shares memory with lazy clones. Call before a write.
void materialize(const at::Tensor& t);
void materialize(const c10::IValue& v);

// Creates tensors over the same memory without keeping it alive: the caller does. Tensors that share a storage share
// its replacement.
class NonOwningTensors {
 public:
  at::Tensor tensor(const at::Tensor& t);

 private:
  std::vector<std::pair<const c10::StorageImpl*, c10::Storage>> storages_;
};
// Whether a tensor is strided, has a storage, and is neither quantized nor nested.
bool is_plain(const at::Tensor& t);

// Creates device tensors over the memory of CPU tensors, and keeps it alive: the reverse of Aliases::to_cpu(). If a
// storage is itself an alias, the device's own storage is used. Tensors that share a storage still share one.
class DeviceAliases {
 public:
  explicit DeviceAliases(c10::DeviceIndex index) : index_(index) {}
  at::Tensor tensor(const at::Tensor& t);

 private:
  c10::Storage storage(const c10::Storage& s);

  c10::DeviceIndex index_;
  std::vector<std::pair<const c10::StorageImpl*, c10::Storage>> storages_;
};

// The aliases of one operator call. Tensors that share a storage share its alias, so that overlap checks and resizes in
// CPU kernels work.
class Aliases {
 public:
  // keep_alive: the alias may outlive the call (packed weights), so it keeps the memory alive.
  explicit Aliases(c10::DeviceIndex index, bool keep_alive = false) : index_(index), keep_alive_(keep_alive) {}

  // Do not materialize lazy clones: the call writes only to memory that was materialized before.
  void keep_lazy() {
    lazy_ = true;
  }

  // Return a CPU tensor over t's memory, or t if it is not a device tensor. `written`: write_back() updates it.
  at::Tensor to_cpu(const at::Tensor& t, bool written);
  c10::Storage to_cpu(const c10::Storage& s);

  // Add an alias that another object of this class created.
  void add_alias(const at::Tensor& dev, const at::Tensor& alias);

  // Apply to the device tensors what a CPU kernel did to its arguments besides writing elements (resize, set_, new
  // storage). Call before to_device().
  void write_back();

  // Return a result as a device tensor: the argument that it aliases, a view of its memory, or new memory relabelled.
  at::Tensor to_device(at::Tensor result);

 private:
  struct StoragePair {
    c10::StorageImpl* dev;
    c10::intrusive_ptr<c10::StorageImpl> cpu;
  };
  struct TensorPair {
    at::Tensor dev;
    at::Tensor cpu;
    bool written;
  };

  const c10::intrusive_ptr<c10::StorageImpl>& storage_alias(const c10::Storage& s);
  at::Tensor strided_to_cpu(const at::Tensor& t);
  at::Tensor other_to_cpu(const at::Tensor& t);
  at::Tensor other_to_device(const at::Tensor& r);
  void write_back_strided(c10::TensorImpl* dev, c10::TensorImpl* alias);
  void write_back_other(TensorPair& p);
  at::Tensor part_to_device(const at::Tensor& part);
  // Return the device storage for a CPU storage that a kernel returned.
  c10::Storage adopt(const c10::Storage& s);

  c10::DeviceIndex index_;
  bool keep_alive_;
  bool lazy_ = false;
  c10::SmallVector<StoragePair, 4> storages_;
  c10::SmallVector<TensorPair, 4> tensors_;
  std::vector<c10::Storage> held_;
};

}  // namespace hostdevice
