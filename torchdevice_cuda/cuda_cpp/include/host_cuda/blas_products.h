// Matrix products for cuBLAS's functions: PyTorch's own where its headers came first, otherwise plain loops.
#pragma once

#include <cstdint>
#include <cstring>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "host_cuda/api.h"
#include "host_cuda/half_types.h"
#include "library_types.h"
#if defined(C10_API)
#include "host_cuda/torch_api_begin.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include "host_cuda/torch_api_end.h"
#endif

#pragma GCC visibility push(hidden)
namespace host_cuda {

inline size_t size_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_8I:
    case CUDA_R_8U:
      return 1;
    case CUDA_R_64F:
      return 8;
    default:
      return 4;
  }
}
inline double read_number(const void* p, cudaDataType type, int64_t i) {
  switch (type) {
    case CUDA_R_16F:
      return half_value(static_cast<const uint16_t*>(p)[i]);
    case CUDA_R_16BF:
      return bfloat_value(static_cast<const uint16_t*>(p)[i]);
    case CUDA_R_8I:
      return static_cast<const int8_t*>(p)[i];
    case CUDA_R_8U:
      return static_cast<const uint8_t*>(p)[i];
    case CUDA_R_32I:
      return static_cast<const int32_t*>(p)[i];
    case CUDA_R_64F:
      return static_cast<const double*>(p)[i];
    default:
      return static_cast<const float*>(p)[i];
  }
}
inline void write_number(void* p, cudaDataType type, int64_t i, double x) {
  switch (type) {
    case CUDA_R_16F:
      static_cast<uint16_t*>(p)[i] = half_bits(static_cast<float>(x));
      break;
    case CUDA_R_16BF:
      static_cast<uint16_t*>(p)[i] = bfloat_bits(static_cast<float>(x));
      break;
    case CUDA_R_32I:
      static_cast<int32_t*>(p)[i] = static_cast<int32_t>(x);
      break;
    case CUDA_R_64F:
      static_cast<double*>(p)[i] = x;
      break;
    default:
      static_cast<float*>(p)[i] = static_cast<float>(x);
  }
}

// A matrix as cuBLAS has it: columns follow each other, `step` elements apart.
struct Matrix {
  const void* data;
  cudaDataType type;
  int64_t step;
  bool transposed;
  int64_t at(int64_t row, int64_t column) const {
    return transposed ? row * step + column : column * step + row;
  }
};

#if defined(C10_API)
inline at::ScalarType scalar_type(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
      return at::kHalf;
    case CUDA_R_16BF:
      return at::kBFloat16;
    case CUDA_R_8I:
      return at::kChar;
    case CUDA_R_8U:
      return at::kByte;
    case CUDA_R_32I:
      return at::kInt;
    case CUDA_R_64F:
      return at::kDouble;
    default:
      return at::kFloat;
  }
}
inline at::Tensor as_tensor(const Matrix& m, int64_t rows, int64_t columns) {
  const auto strides = m.transposed ? std::vector<int64_t>{m.step, 1} : std::vector<int64_t>{1, m.step};
  return at::from_blob(const_cast<void*>(m.data), {rows, columns}, strides, at::TensorOptions(scalar_type(m.type)));
}
#endif

// c = alpha a b + beta c, for an m x k and a k x n matrix. Sums are of float, of double if c is, of integers if c is.
inline void multiply(
    int64_t m, int64_t n, int64_t k, double alpha, const Matrix& a, const Matrix& b, double beta, void* c,
    cudaDataType c_type, int64_t c_step) {
  const Matrix result{c, c_type, c_step, false};
#if defined(C10_API)
  if (m > 0 && n > 0 && k > 0) {
    const auto type = c_type == CUDA_R_64F ? at::kDouble : (c_type == CUDA_R_32I ? at::kLong : at::kFloat);
    at::Tensor out = as_tensor(result, m, n), made = at::mm(as_tensor(a, m, k).to(type), as_tensor(b, k, n).to(type));
    if (alpha != 1) made.mul_(alpha);
    if (beta != 0) made.add_(out.to(type), beta);
    out.copy_(made);
    return;
  }
#endif
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < m; ++i) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += read_number(a.data, a.type, a.at(i, l)) * read_number(b.data, b.type, b.at(l, j));
      const double old = beta != 0 ? beta * read_number(c, c_type, result.at(i, j)) : 0;
      write_number(c, c_type, result.at(i, j), alpha * sum + old);
    }
}

}  // namespace host_cuda
#pragma GCC visibility pop
