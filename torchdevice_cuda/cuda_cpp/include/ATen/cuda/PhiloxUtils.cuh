#pragma once
#include <ATen/cuda/PhiloxCudaState.h>

#include <tuple>

namespace at::cuda::philox {
inline namespace on_host {

// The seed and the offset that a launch was given. None is given while a graph is captured (CUDAGeneratorImpl.h).
inline std::tuple<uint64_t, uint64_t> unpack(const at::PhiloxCudaState& given) {
  return {static_cast<uint64_t>(given.seed_.val), static_cast<uint64_t>(given.offset_.val)};
}

}  // namespace on_host
}  // namespace at::cuda::philox
