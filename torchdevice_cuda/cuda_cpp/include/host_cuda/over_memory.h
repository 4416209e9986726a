// Functions of CUB over a device's memory: the first call asks how much memory they need, the second is work of the
// stream.
#pragma once

#include <iterator>

#include "cub/thread/thread_operators.cuh"
#include "cub/util_type.cuh"
#include "host_cuda/api.h"
#include "host_cuda/orders.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

template <class It>
using ValueOf = std::remove_cv_t<typename std::iterator_traits<It>::value_type>;
template <class Call>
cudaError_t in_two_calls(void* memory, size_t& bytes, cudaStream_t stream, const char* name, Call call) {
  if (!memory) {
    bytes = 1;
    return cudaSuccess;
  }
  return enqueue(stream, name, call);
}
template <class Index>
std::ptrdiff_t place(Index i) {
  return static_cast<std::ptrdiff_t>(i);
}

}  // namespace host_cuda
#pragma GCC visibility pop
