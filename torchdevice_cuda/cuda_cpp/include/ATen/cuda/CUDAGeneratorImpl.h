// The device's generator, as extensions ask it for random numbers: a seed, and how many words each thread has drawn.
#pragma once
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/PhiloxCudaState.h>
#include <c10/cuda/CUDAFunctions.h>

#include <utility>

namespace at {

// A look at the generator that the device has, whatever its class: nothing is added to what every generator has. It is
// hidden, not in a namespace of its own (c10/cuda/CUDAMacros.h): other headers of PyTorch's declare the class.
#pragma GCC visibility push(hidden)
struct CUDAGeneratorImpl : public c10::GeneratorImpl {
  CUDAGeneratorImpl() = delete;
  static c10::DeviceType device_type() {
    return c10::DeviceType::CUDA;
  }
  void set_philox_offset_per_thread(uint64_t offset) {
    set_offset(offset);
  }
  uint64_t philox_offset_per_thread() const {
    return get_offset();
  }
  // What a launch draws from, and the generator goes on. Four words are drawn at a time. In a graph's capture the
  // generator refuses: replays would draw the same again.
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t increment) {
    const uint64_t begin = get_offset();
    set_offset(begin + (increment + 3) / 4 * 4);
    return {current_seed(), begin};
  }
  PhiloxCudaState philox_cuda_state(uint64_t increment) {
    const auto [seed, begin] = philox_engine_inputs(increment);
    return PhiloxCudaState(seed, begin);
  }
};
#pragma GCC visibility pop

namespace cuda::detail {
inline namespace on_host {

inline const Generator& getDefaultCUDAGenerator(DeviceIndex index = -1) {
  const auto device = index < 0 ? c10::cuda::current_device() : index;
  return at::globalContext().defaultGenerator(c10::Device(c10::DeviceType::CUDA, device));
}

}  // namespace on_host
}  // namespace cuda::detail
}  // namespace at
