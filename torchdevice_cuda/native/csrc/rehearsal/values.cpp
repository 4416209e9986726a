#include "rehearsal/values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <unordered_set>

#include "operators/alias.h"
#include "runtime/captures.h"
#include "runtime/host.h"
#include "runtime/observer.h"

namespace hostdevice {
namespace {

class Uncomputed final : public StreamObserver {
 public:
  void allocate(const ObservedBlock& block) override {
    set(block.at, false);
  }
  void set(const void* at, bool is_uncomputed) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_uncomputed)
      all_.insert(at);
    else
      all_.erase(at);
  }
  bool has(const void* at) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_.count(at) != 0;
  }

 private:
  std::mutex mutex_;  // no other lock is taken under it
  std::unordered_set<const void*> all_;
};
Uncomputed& uncomputed() {
  static auto* one = new Uncomputed;
  return *one;
}

const void* memory_of(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()->data();
}

constexpr std::array<std::string_view, 6> kCounts = {"all", "equal", "sum", "count_nonzero", "bincount", "nansum"};

}  // namespace

bool is_large(const at::Tensor& t) {
  if (!is_plain(t)) return t.numel() * static_cast<int64_t>(t.itemsize()) > static_cast<int64_t>(kMostComputed);
  return t.unsafeGetTensorImpl()->unsafe_storage().nbytes() > kMostComputed;
}

bool is_uncomputed(const at::Tensor& t) {
  return is_large(t) || (is_plain(t) && uncomputed().has(memory_of(t)));
}

void mark_uncomputed(const at::Tensor& t) {
  if (is_plain(t) && !is_large(t) && t.numel()) uncomputed().set(memory_of(t), true);
}

void mark_computed(const at::Tensor& t) {
  if (is_plain(t) && !is_large(t)) uncomputed().set(memory_of(t), false);
}

c10::Scalar get_stand_in(std::string_view op, c10::ScalarType type) {
  const bool is_one = c10::isFloatingType(type) || c10::isComplexType(type) ||
      std::find(kCounts.begin(), kCounts.end(), op) != kCounts.end();
  return static_cast<int64_t>(is_one);
}

void fill_with_stand_in(const at::Tensor& t, std::string_view op) {
  if (!t.numel() || !is_plain(t)) return;
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset | c10::python_ks);
  const InNode whole;
  t.fill_(get_stand_in(op, t.scalar_type()));
}

void watch_memory() {
  add_observer(uncomputed());
}

}  // namespace hostdevice
