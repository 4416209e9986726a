// What differs between the PyTorch versions this compiles against (2.6 and later), and nothing else.
//
// One function, alias or constant a difference; no other file asks for the version.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/ScalarType.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#define HOSTDEVICE_TORCH_SINCE(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

// Whether PyTorch's profiler can be extended: its Kineto comes with headers.
#if defined(HOSTDEVICE_CUDA) && __has_include(<kineto/libkineto.h>)
#define HOSTDEVICE_KINETO
#endif

// Whether one kernel takes norms of order 0 of a list of tensors: an H200 had several in 2.11, the sources of 2.13 have
// one. A macro, for the one unit that asks.
#define HOSTDEVICE_ZERO_NORM_AT_ONCE HOSTDEVICE_TORCH_SINCE(2, 13)

namespace hostdevice {

// Powers of two in eight bits, of which scales are made: a type since 2.7.
inline bool is_power_of_two(c10::ScalarType type) {
#if HOSTDEVICE_TORCH_SINCE(2, 7)
  return type == c10::ScalarType::Float8_e8m0fnu;
#else
  return false;
#endif
}

// The name of a memory pool. It is c10::MempoolId_t, which CPU builds have since 2.9 only.
using PoolId = std::pair<unsigned long long, unsigned long long>;

// What an accelerator's allocator derives from. Since 2.9 torch.accelerator's memory functions ask it; before, nobody
// asked, and these are the same questions.
#if HOSTDEVICE_TORCH_SINCE(2, 9)
using AllocatorBase = c10::DeviceAllocator;
#else
struct AllocatorBase : c10::Allocator {
  virtual bool initialized() = 0;
  virtual void emptyCache(PoolId pool = {0, 0}) = 0;
  virtual void recordStream(const c10::DataPtr& pointer, c10::Stream stream) = 0;
  virtual c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) = 0;
  virtual void resetAccumulatedStats(c10::DeviceIndex device) = 0;
  virtual void resetPeakStats(c10::DeviceIndex device) = 0;
};
#endif

// The forward stack of an allocation in a backward pass, under torch.autograd.detect_anomaly(): later releases'
// stacks have one. The class itself is asked, not the version.
template <class, class = void>
struct has_forward_stack : std::false_type {};
template <class T>
struct has_forward_stack<T, std::void_t<decltype(std::declval<const T&>().forward_traceback())>> : std::true_type {};
template <class Traceback>
const std::vector<std::string>* forward_stack(const Traceback& t) {
  if constexpr (has_forward_stack<Traceback>::value) {
    const auto& found = t.forward_traceback();
    return found.has_value() && !found->empty() ? &*found : nullptr;
  } else {
    return nullptr;
  }
}

// Lets a storage's memory be looked at again. Releases that cannot say so only ever forbid it for good.
template <class, class = void>
struct can_allow : std::false_type {};
template <class T>
struct can_allow<T, std::void_t<decltype(std::declval<T&>().clear_data_ptr_access_error_msg_())>> : std::true_type {};
template <class Storage>
void allow_access(Storage& storage) {
  if constexpr (can_allow<Storage>::value) storage.clear_data_ptr_access_error_msg_();
}

// Whether PyTorch lets these throw: 2.6 declares them noexcept, and so must whoever overrides them. The interface
// itself is asked, not the version.
using GuardInterface = c10::impl::DeviceGuardImplInterface;
inline constexpr bool kGetStreamNoexcept =
    noexcept(std::declval<const GuardInterface&>().getStream(std::declval<c10::Device>()));
inline constexpr bool kExchangeStreamNoexcept =
    noexcept(std::declval<const GuardInterface&>().exchangeStream(std::declval<c10::Stream>()));

// torch.AcceleratorError (since 2.8) carries the runtime's error code; before, CUDA errors were plain RuntimeErrors.
[[noreturn]] inline void throw_accelerator_error([[maybe_unused]] int code, const std::string& message) {
  const c10::SourceLocation here{__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
#if HOSTDEVICE_TORCH_SINCE(2, 8)
  throw c10::AcceleratorError(here, code, message);
#else
  throw c10::Error(here, message);
#endif
}

// What CUDA's out-of-memory error advises: the variable's name went back to the old one, and the page moved.
inline constexpr const char* kMemoryAdvice =
#if HOSTDEVICE_TORCH_SINCE(2, 11)
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management "
    " (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
#elif HOSTDEVICE_TORCH_SINCE(2, 9)
    "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management "
    " (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
#else
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management "
    " (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
#endif

// Where graphs find the seed and offset of a generator: until 2.12 in memory that all graphs share, since then each has
// its own.
inline constexpr bool kEachGraphKeepsSeeds = HOSTDEVICE_TORCH_SINCE(2, 13);

// Since 2.15 the fused kernels of attention take heads without a batch, too.
inline constexpr bool kFusedAttentionWithoutBatch = HOSTDEVICE_TORCH_SINCE(2, 15);

// Until 2.11 an Apple GPU made complex128 tensors, though nothing could be computed with them; since 2.12 it refuses.
inline constexpr bool kMpsHoldsComplexDouble = !HOSTDEVICE_TORCH_SINCE(2, 12);

// A row of a trace, as Kineto describes it: once by a constructor that takes the device first, later by its members.
template <class Resource>
Resource make_resource(int64_t device, int64_t number, const std::string& name) {
  if constexpr (std::is_aggregate_v<Resource>)
    return Resource{number, number, device, name};
  else
    return Resource(device, number, number, name);
}

// ---- how CUDA's kernels draw ---------------------------------------------------------------------------------------

// Whether integers below `range` are drawn from 64 bits each: since 2.7 wherever 32 would favour some visibly, before
// where 32 are too few and the type has room for more.
inline constexpr uint64_t kFewWholeNumbers = HOSTDEVICE_TORCH_SINCE(2, 7) ? uint64_t{1} << 28 : uint64_t{1} << 32;
inline constexpr bool kEveryTypeDrawsMany = HOSTDEVICE_TORCH_SINCE(2, 7);

// Of a kernel over two tensors: how many elements a thread computes.
inline constexpr int64_t kElementsOfThread = HOSTDEVICE_TORCH_SINCE(2, 8) ? 8 : 4;

// The most neighbours that a thread of dropout computes: since 2.7 what 16 bytes hold, before four.
inline constexpr int64_t get_dropout_vector_size([[maybe_unused]] int64_t item_size) {
  return HOSTDEVICE_TORCH_SINCE(2, 7) ? 16 / item_size : 4;
}

}  // namespace hostdevice
