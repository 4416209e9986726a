#pragma once

#include "host_cuda/over_memory.h"

namespace cub {

struct DeviceScan {
  // In and out may be the same memory.
  template <class In, class Out, class Op, class N>
  static cudaError_t InclusiveScan(
      void* memory, size_t& bytes, In in, Out out, Op op, N n, cudaStream_t stream = nullptr) {
    using T = host_cuda::ValueOf<In>;
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceScan", [=] {
      if (n <= 0) return;
      T total = in[0];
      out[0] = total;
      for (std::ptrdiff_t i = 1; i < host_cuda::place(n); ++i) out[i] = total = op(total, in[i]);
    });
  }
  template <class In, class Out, class Op, class T, class N>
  static cudaError_t ExclusiveScan(
      void* memory, size_t& bytes, In in, Out out, Op op, T initial, N n, cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceScan", [=] {
      T total = initial;
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) {
        const T next = op(total, in[i]);
        out[i] = total;
        total = next;
      }
    });
  }
  template <class In, class Out, class N>
  static cudaError_t InclusiveSum(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    return InclusiveScan(memory, bytes, in, out, cub::Sum(), n, stream);
  }
  template <class In, class Out, class N>
  static cudaError_t ExclusiveSum(void* memory, size_t& bytes, In in, Out out, N n, cudaStream_t stream = nullptr) {
    return ExclusiveScan(memory, bytes, in, out, cub::Sum(), host_cuda::ValueOf<In>{}, n, stream);
  }
  // Each run of equal keys is scanned by itself.
  template <class Keys, class In, class Out, class Op, class N, class Equal = cub::Equality>
  static cudaError_t InclusiveScanByKey(
      void* memory, size_t& bytes, Keys keys, In in, Out out, Op op, N n, Equal equal = Equal(),
      cudaStream_t stream = nullptr) {
    using T = host_cuda::ValueOf<In>;
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceScan", [=]() mutable {
      T total{};
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) {
        const T one = in[i];
        out[i] = total = i && equal(keys[i - 1], keys[i]) ? op(total, one) : one;
      }
    });
  }
  template <class Keys, class In, class Out, class Op, class T, class N, class Equal = cub::Equality>
  static cudaError_t ExclusiveScanByKey(
      void* memory, size_t& bytes, Keys keys, In in, Out out, Op op, T initial, N n, Equal equal = Equal(),
      cudaStream_t stream = nullptr) {
    return host_cuda::in_two_calls(memory, bytes, stream, "cub::DeviceScan", [=]() mutable {
      T total = initial;
      for (std::ptrdiff_t i = 0; i < host_cuda::place(n); ++i) {
        if (i && !equal(keys[i - 1], keys[i])) total = initial;
        const T next = op(total, in[i]);
        out[i] = total;
        total = next;
      }
    });
  }
  template <class Keys, class In, class Out, class N, class Equal = cub::Equality>
  static cudaError_t InclusiveSumByKey(
      void* memory, size_t& bytes, Keys keys, In in, Out out, N n, Equal equal = Equal(),
      cudaStream_t stream = nullptr) {
    return InclusiveScanByKey(memory, bytes, keys, in, out, cub::Sum(), n, equal, stream);
  }
  template <class Keys, class In, class Out, class N, class Equal = cub::Equality>
  static cudaError_t ExclusiveSumByKey(
      void* memory, size_t& bytes, Keys keys, In in, Out out, N n, Equal equal = Equal(),
      cudaStream_t stream = nullptr) {
    return ExclusiveScanByKey(memory, bytes, keys, in, out, cub::Sum(), host_cuda::ValueOf<In>{}, n, equal, stream);
  }
};

}  // namespace cub
