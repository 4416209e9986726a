// What differs between the PyTorch versions this compiles against (2.6 and later), and nothing else.
#pragma once

// build.py passes major * 100 + minor.
#ifndef HOSTDEVICE_TORCH
#error "compile through build.py, which names the PyTorch version"
#endif

#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <string>
#include <utility>

#if HOSTDEVICE_TORCH >= 209
#include <c10/core/CachingDeviceAllocator.h>
#define HOSTDEVICE_HAS_DEVICE_ALLOCATOR 1
#else
#define HOSTDEVICE_HAS_DEVICE_ALLOCATOR 0
#endif

namespace hostdevice {

#if HOSTDEVICE_HAS_DEVICE_ALLOCATOR
using AllocatorBase = c10::DeviceAllocator;
#else
using AllocatorBase = c10::Allocator;
#endif

// Whether PyTorch lets these throw: older versions declare them noexcept, and so must whoever overrides them.
using GuardInterface = c10::impl::DeviceGuardImplInterface;
inline constexpr bool kGetStreamNoexcept =
    noexcept(std::declval<const GuardInterface&>().getStream(std::declval<c10::Device>()));
inline constexpr bool kExchangeStreamNoexcept =
    noexcept(std::declval<const GuardInterface&>().exchangeStream(std::declval<c10::Stream>()));

// torch.AcceleratorError carries the runtime's error code; before it existed CUDA errors were plain RuntimeErrors.
[[noreturn]] inline void throw_accelerator_error(int code, const std::string& message) {
#if HOSTDEVICE_TORCH >= 208
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, code, message);
#else
  (void)code;
  throw c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, message);
#endif
}

}  // namespace hostdevice
