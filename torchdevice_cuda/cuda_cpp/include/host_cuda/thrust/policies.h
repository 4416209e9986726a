// Where an algorithm of Thrust is to run: here it is the host, after all work of the device.
#pragma once

#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "host_cuda/api.h"

namespace thrust {

class system_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
namespace system {
using thrust::system_error;
}  // namespace system

#pragma GCC visibility push(hidden)
namespace host_cuda_detail {

struct Policy {
  Policy on(cudaStream_t) const {
    return {};
  }
  template <class Allocator>
  Policy operator()(Allocator&&) const {
    return {};
  }
};
template <class T>
constexpr bool is_policy = std::is_base_of_v<Policy, std::decay_t<T>>;

// In a kernel an algorithm is the thread's own. Outside, it waits, so that it cannot be part of a graph.
inline void begin() {
  if (::host_cuda::worker) return;
  if (const cudaError_t error = cudaDeviceSynchronize())
    throw system_error(std::string("thrust: ") + cudaGetErrorString(error));
}

}  // namespace host_cuda_detail
#pragma GCC visibility pop

using device_execution_policy = host_cuda_detail::Policy;
static const host_cuda_detail::Policy device{}, host{}, seq{};
namespace cuda {
static const host_cuda_detail::Policy par{}, par_nosync{};
}  // namespace cuda
namespace system::cuda {
static const host_cuda_detail::Policy par{};
}  // namespace system::cuda

}  // namespace thrust
