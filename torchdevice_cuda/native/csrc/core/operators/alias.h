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

// A tensor, or each of a list, gets memory of its own where it shares it with lazy clones: it is going to be written.
void materialize(const at::Tensor& t);
void materialize(const c10::IValue& v);

// The same tensors over the same memory, which they do not keep: somebody else does. Those that share a storage share
// its stand-in.
class Borrowed {
 public:
  at::Tensor tensor(const at::Tensor& t);

 private:
  std::vector<std::pair<const c10::StorageImpl*, c10::Storage>> storages_;
};
// Whether a tensor is memory and a shape, and nothing else.
bool is_plain(const at::Tensor& t);

// CPU tensors as device tensors over the same memory, which they keep alive: the reverse of Aliases::to_cpu(). A
// storage that is itself an alias gives the device's own back. Tensors that share a storage go on sharing one.
class Lent {
 public:
  explicit Lent(c10::DeviceIndex index) : index_(index) {}
  at::Tensor tensor(const at::Tensor& t);

 private:
  c10::Storage storage(const c10::Storage& s);

  c10::DeviceIndex index_;
  std::vector<std::pair<const c10::StorageImpl*, c10::Storage>> storages_;
};

// The aliases of one operator call. Two tensors that share a storage share its alias, so that overlap checks and
// resizes inside CPU kernels see what they should.
class Aliases {
 public:
  // keep_alive: the alias may outlive the call (packed weights), so it must hold on to the memory.
  explicit Aliases(c10::DeviceIndex index, bool keep_alive = false) : index_(index), keep_alive_(keep_alive) {}

  // Memory that lazy clones share stays shared: nothing but what was materialized before is written.
  void keep_lazy() {
    lazy_ = true;
  }

  // A CPU tensor over t's memory; t itself if it is not a device tensor. `written`: write_back() looks at it.
  at::Tensor to_cpu(const at::Tensor& t, bool written);
  c10::Storage to_cpu(const c10::Storage& s);

  // An alias made before, by another object of this class.
  void know(const at::Tensor& dev, const at::Tensor& alias);

  // What a CPU kernel did to its arguments besides writing elements (resizing, set_, new storage) happens to the
  // device tensors too. Before any to_device().
  void write_back();

  // A result as a device tensor: the argument it came from, a view of its memory, or fresh memory relabelled.
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
  // The device storage for a CPU storage that came out of a kernel.
  c10::Storage adopt(const c10::Storage& s);

  c10::DeviceIndex index_;
  bool keep_alive_;
  bool lazy_ = false;
  c10::SmallVector<StoragePair, 4> storages_;
  c10::SmallVector<TensorPair, 4> tensors_;
  std::vector<c10::Storage> kept_;
};

}  // namespace hostdevice
