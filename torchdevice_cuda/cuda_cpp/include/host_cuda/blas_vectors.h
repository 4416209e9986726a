// cuBLAS's functions of vectors, and of a matrix and a vector.
#pragma once

#include <cmath>

#include "host_cuda/blas.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

template <class Call>
cublasStatus_t enqueue_vectors(cublasHandle_t handle, const char* name, Call call) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  return enqueue(handle->stream, name, call) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace host_cuda
#pragma GCC visibility pop

// Copies between the host's vectors and matrices and the device's, whose distances may differ.
#define HOST_CUDA_COPIES(direction, kind)                                                                \
  static inline cublasStatus_t cublas##direction##Matrix(                                                \
      int rows, int columns, int size, const void* from, int from_distance, void* to, int to_distance) { \
    if (rows < 0 || columns < 0 || size <= 0 || from_distance <= 0 || to_distance <= 0)                  \
      return CUBLAS_STATUS_INVALID_VALUE;                                                                \
    const size_t bytes = static_cast<size_t>(size);                                                      \
    const cudaError_t done = cudaMemcpy2D(                                                               \
        to, bytes * static_cast<size_t>(to_distance), from, bytes * static_cast<size_t>(from_distance),  \
        bytes * static_cast<size_t>(rows), static_cast<size_t>(columns), kind);                          \
    return done == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;                    \
  }                                                                                                      \
  static inline cublasStatus_t cublas##direction##Vector(                                                \
      int n, int size, const void* from, int from_distance, void* to, int to_distance) {                 \
    return cublas##direction##Matrix(1, n, size, from, from_distance, to, to_distance);                  \
  }
HOST_CUDA_COPIES(Set, cudaMemcpyHostToDevice)
HOST_CUDA_COPIES(Get, cudaMemcpyDeviceToHost)
#undef HOST_CUDA_COPIES

#define HOST_CUDA_VECTORS(letter, amax_name, type)                                                                 \
  static inline cublasStatus_t cublas##letter##axpy(                                                               \
      cublasHandle_t handle, int n, const type* alpha, const type* x, int dx, type* y, int dy) {                   \
    return host_cuda::enqueue_vectors(handle, "cublasAxpy", [=] {                                                  \
      for (int64_t i = 0; i < n; ++i) y[i * dy] += *alpha * x[i * dx];                                             \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##scal(                                                               \
      cublasHandle_t handle, int n, const type* alpha, type* x, int dx) {                                          \
    return host_cuda::enqueue_vectors(handle, "cublasScal", [=, by = *alpha] {                                     \
      for (int64_t i = 0; i < n; ++i) x[i * dx] *= by;                                                             \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##copy(                                                               \
      cublasHandle_t handle, int n, const type* x, int dx, type* y, int dy) {                                      \
    return host_cuda::enqueue_vectors(handle, "cublasCopy", [=] {                                                  \
      for (int64_t i = 0; i < n; ++i) y[i * dy] = x[i * dx];                                                       \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##dot(                                                                \
      cublasHandle_t handle, int n, const type* x, int dx, const type* y, int dy, type* result) {                  \
    return host_cuda::enqueue_vectors(handle, "cublasDot", [=] {                                                   \
      double sum = 0;                                                                                              \
      for (int64_t i = 0; i < n; ++i) sum += double(x[i * dx]) * double(y[i * dy]);                                \
      *result = static_cast<type>(sum);                                                                            \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##nrm2(                                                               \
      cublasHandle_t handle, int n, const type* x, int dx, type* result) {                                         \
    return host_cuda::enqueue_vectors(handle, "cublasNrm2", [=] {                                                  \
      double sum = 0;                                                                                              \
      for (int64_t i = 0; i < n; ++i) sum += double(x[i * dx]) * double(x[i * dx]);                                \
      *result = static_cast<type>(std::sqrt(sum));                                                                 \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##asum(                                                               \
      cublasHandle_t handle, int n, const type* x, int dx, type* result) {                                         \
    return host_cuda::enqueue_vectors(handle, "cublasAsum", [=] {                                                  \
      double sum = 0;                                                                                              \
      for (int64_t i = 0; i < n; ++i) sum += std::fabs(double(x[i * dx]));                                         \
      *result = static_cast<type>(sum);                                                                            \
    });                                                                                                            \
  }                                                                                                                \
  /* Counted from 1, as in Fortran. */                                                                             \
  static inline cublasStatus_t amax_name(cublasHandle_t handle, int n, const type* x, int dx, int* result) {       \
    return host_cuda::enqueue_vectors(handle, "cublasAmax", [=] {                                                  \
      int best = 0;                                                                                                \
      for (int i = 1; i < n; ++i)                                                                                  \
        if (std::fabs(double(x[int64_t{i} * dx])) > std::fabs(double(x[int64_t{best} * dx]))) best = i;            \
      *result = n > 0 ? best + 1 : 0;                                                                              \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##gemv(                                                               \
      cublasHandle_t handle, cublasOperation_t op, int m, int n, const type* alpha, const type* a, int step,       \
      const type* x, int dx, const type* beta, type* y, int dy) {                                                  \
    return host_cuda::enqueue_vectors(handle, "cublasGemv", [=, by = *alpha, keep = *beta] {                       \
      const int rows = op == CUBLAS_OP_N ? m : n, columns = op == CUBLAS_OP_N ? n : m;                             \
      for (int64_t i = 0; i < rows; ++i) {                                                                         \
        double sum = 0;                                                                                            \
        for (int64_t j = 0; j < columns; ++j)                                                                      \
          sum += double(op == CUBLAS_OP_N ? a[j * step + i] : a[i * step + j]) * double(x[j * dx]);                \
        y[i * dy] = static_cast<type>(by * sum + (keep != type(0) ? keep * y[i * dy] : type(0)));                  \
      }                                                                                                            \
    });                                                                                                            \
  }                                                                                                                \
  static inline cublasStatus_t cublas##letter##geam(                                                               \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, const type* alpha,      \
      const type* a, int step_a, const type* beta, const type* b, int step_b, type* c, int step_c) {               \
    return host_cuda::enqueue_vectors(handle, "cublasGeam", [=, by_a = *alpha, by_b = *beta] {                     \
      for (int64_t j = 0; j < n; ++j)                                                                              \
        for (int64_t i = 0; i < m; ++i)                                                                            \
          c[j * step_c + i] =                                                                                      \
              (by_a != type(0) ? by_a * (op_a == CUBLAS_OP_N ? a[j * step_a + i] : a[i * step_a + j]) : type(0)) + \
              (by_b != type(0) ? by_b * (op_b == CUBLAS_OP_N ? b[j * step_b + i] : b[i * step_b + j]) : type(0));  \
    });                                                                                                            \
  }
HOST_CUDA_VECTORS(S, cublasIsamax, float)
HOST_CUDA_VECTORS(D, cublasIdamax, double)
#undef HOST_CUDA_VECTORS
