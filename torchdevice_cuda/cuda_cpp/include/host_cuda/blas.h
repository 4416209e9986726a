// cuBLAS: its handle, and matrix products in the order of the handle's stream.
#pragma once

#include "host_cuda/blas_products.h"

#ifndef CUBLAS_VER_MAJOR
#define CUBLAS_VER_MAJOR 13
#define CUBLAS_VER_MINOR 0
#define CUBLAS_VERSION 130000
#endif
#define CUBLASWINAPI
#define CUBLASAPI

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14,
  CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum {
  CUBLAS_OP_N = 0,
  CUBLAS_OP_T = 1,
  CUBLAS_OP_C = 2,
  CUBLAS_OP_HERMITAN = 2,
  CUBLAS_OP_CONJG = 3
} cublasOperation_t;
typedef enum { CUBLAS_FILL_MODE_LOWER = 0, CUBLAS_FILL_MODE_UPPER = 1, CUBLAS_FILL_MODE_FULL = 2 } cublasFillMode_t;
typedef enum { CUBLAS_DIAG_NON_UNIT = 0, CUBLAS_DIAG_UNIT = 1 } cublasDiagType_t;
typedef enum { CUBLAS_SIDE_LEFT = 0, CUBLAS_SIDE_RIGHT = 1 } cublasSideMode_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum { CUBLAS_ATOMICS_NOT_ALLOWED = 0, CUBLAS_ATOMICS_ALLOWED = 1 } cublasAtomicsMode_t;
typedef enum {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3,
  CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
} cublasMath_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_16F_PEDANTIC = 65,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69,
  CUBLAS_COMPUTE_64F = 70,
  CUBLAS_COMPUTE_64F_PEDANTIC = 71,
  CUBLAS_COMPUTE_32I = 72,
  CUBLAS_COMPUTE_32I_PEDANTIC = 73,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;
// All algorithms are one here.
typedef enum {
  CUBLAS_GEMM_DFALT = -1,
  CUBLAS_GEMM_DEFAULT = -1,
  CUBLAS_GEMM_ALGO0 = 0,
  CUBLAS_GEMM_ALGO23 = 23,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99,
  CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
  CUBLAS_GEMM_ALGO0_TENSOR_OP = 100,
  CUBLAS_GEMM_ALGO15_TENSOR_OP = 115
} cublasGemmAlgo_t;
typedef cudaDataType cublasDataType_t;

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointers = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics = CUBLAS_ATOMICS_NOT_ALLOWED;
};
typedef cublasContext* cublasHandle_t;

static inline cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
static inline cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
static inline cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}
static inline cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
#define HOST_CUDA_BLAS_SETTING(set_name, get_name, type, member)              \
  static inline cublasStatus_t set_name(cublasHandle_t handle, type value) {  \
    handle->member = value;                                                   \
    return CUBLAS_STATUS_SUCCESS;                                             \
  }                                                                           \
  static inline cublasStatus_t get_name(cublasHandle_t handle, type* value) { \
    *value = handle->member;                                                  \
    return CUBLAS_STATUS_SUCCESS;                                             \
  }
HOST_CUDA_BLAS_SETTING(cublasSetStream_v2, cublasGetStream_v2, cudaStream_t, stream)
HOST_CUDA_BLAS_SETTING(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math)
HOST_CUDA_BLAS_SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t, pointers)
HOST_CUDA_BLAS_SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t, atomics)
#undef HOST_CUDA_BLAS_SETTING
#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasGetVersion cublasGetVersion_v2
#define cublasSetWorkspace cublasSetWorkspace_v2
#define cublasSetStream cublasSetStream_v2
#define cublasGetStream cublasGetStream_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasGetPointerMode cublasGetPointerMode_v2
static inline const char* cublasGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}
static inline const char* cublasGetStatusString(cublasStatus_t status) {
  return cublasGetStatusName(status);
}

#pragma GCC visibility push(hidden)
namespace host_cuda {

// A factor has the type of the computation.
inline double read_factor(const void* p, cublasComputeType_t type) {
  switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return read_number(p, CUDA_R_16F, 0);
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return read_number(p, CUDA_R_64F, 0);
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return read_number(p, CUDA_R_32I, 0);
    default:
      return read_number(p, CUDA_R_32F, 0);
  }
}
// Earlier releases name the computation by the type of its elements.
inline cublasComputeType_t computed_in(cublasComputeType_t type) {
  return type;
}
inline cublasComputeType_t computed_in(cudaDataType type) {
  return type == CUDA_R_16F ? CUBLAS_COMPUTE_16F
      : type == CUDA_R_64F  ? CUBLAS_COMPUTE_64F
      : type == CUDA_R_32I  ? CUBLAS_COMPUTE_32I
                            : CUBLAS_COMPUTE_32F;
}
struct Gemm {
  cublasOperation_t op_a, op_b;
  int64_t m, n, k;
  const void *alpha, *beta;
  cudaDataType type_a, type_b, type_c;
  int64_t step_a, step_b, step_c;
  cublasComputeType_t compute;
};
inline cublasStatus_t enqueue_products(
    cublasHandle_t handle, const Gemm& g, int64_t count,
    const std::function<std::tuple<const void*, const void*, void*>(int64_t)>& each) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (g.m < 0 || g.n < 0 || g.k < 0 || count < 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool now = handle->pointers == CUBLAS_POINTER_MODE_HOST;
  const double alpha = now ? read_factor(g.alpha, g.compute) : 0, beta = now ? read_factor(g.beta, g.compute) : 0;
  const auto said = enqueue(handle->stream, "cublasGemm", [=] {
    const double by = now ? alpha : read_factor(g.alpha, g.compute), keep = now ? beta : read_factor(g.beta, g.compute);
    for (int64_t i = 0; i < count; ++i) {
      const auto [a, b, c] = each(i);
      multiply(
          g.m, g.n, g.k, by, {a, g.type_a, g.step_a, g.op_a != CUBLAS_OP_N},
          {b, g.type_b, g.step_b, g.op_b != CUBLAS_OP_N}, keep, c, g.type_c, g.step_c);
    }
  });
  return said == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
inline const void* moved(const void* p, cudaDataType type, int64_t elements) {
  return static_cast<const char*>(p) + elements * static_cast<int64_t>(size_of(type));
}

}  // namespace host_cuda
#pragma GCC visibility pop

template <class Compute>
static inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const void* alpha,
    const void* a, cudaDataType type_a, int step_a, long long next_a, const void* b, cudaDataType type_b, int step_b,
    long long next_b, const void* beta, void* c, cudaDataType type_c, int step_c, long long next_c, int count,
    Compute compute, cublasGemmAlgo_t) {
  const host_cuda::Gemm gemm{op_a,   op_b,   m,      n,      k,      alpha,  beta,
                             type_a, type_b, type_c, step_a, step_b, step_c, host_cuda::computed_in(compute)};
  return host_cuda::enqueue_products(handle, gemm, count, [=](int64_t i) {
    return std::make_tuple(
        host_cuda::moved(a, type_a, i * next_a), host_cuda::moved(b, type_b, i * next_b),
        const_cast<void*>(host_cuda::moved(c, type_c, i * next_c)));
  });
}
template <class Compute>
static inline cublasStatus_t cublasGemmEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const void* alpha,
    const void* a, cudaDataType type_a, int step_a, const void* b, cudaDataType type_b, int step_b, const void* beta,
    void* c, cudaDataType type_c, int step_c, Compute compute, cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(
      handle, op_a, op_b, m, n, k, alpha, a, type_a, step_a, 0, b, type_b, step_b, 0, beta, c, type_c, step_c, 0, 1,
      compute, algorithm);
}
template <class Compute>
static inline cublasStatus_t cublasGemmBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const void* alpha,
    const void* const a[], cudaDataType type_a, int step_a, const void* const b[], cudaDataType type_b, int step_b,
    const void* beta, void* const c[], cudaDataType type_c, int step_c, int count, Compute compute, cublasGemmAlgo_t) {
  const host_cuda::Gemm gemm{op_a,   op_b,   m,      n,      k,      alpha,  beta,
                             type_a, type_b, type_c, step_a, step_b, step_c, host_cuda::computed_in(compute)};
  return host_cuda::enqueue_products(handle, gemm, count, [=](int64_t i) { return std::make_tuple(a[i], b[i], c[i]); });
}
static inline cublasStatus_t cublasSgemmEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const float* alpha,
    const void* a, cudaDataType type_a, int step_a, const void* b, cudaDataType type_b, int step_b, const float* beta,
    void* c, cudaDataType type_c, int step_c) {
  return cublasGemmEx(
      handle, op_a, op_b, m, n, k, alpha, a, type_a, step_a, b, type_b, step_b, beta, c, type_c, step_c,
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}
#define HOST_CUDA_GEMM(letter, type, data_type, compute)                                                             \
  static inline cublasStatus_t cublas##letter##gemm(                                                                 \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const type* alpha, \
      const type* a, int step_a, const type* b, int step_b, const type* beta, type* c, int step_c) {                 \
    return cublasGemmEx(                                                                                             \
        handle, op_a, op_b, m, n, k, alpha, a, data_type, step_a, b, data_type, step_b, beta, c, data_type, step_c,  \
        compute, CUBLAS_GEMM_DEFAULT);                                                                               \
  }                                                                                                                  \
  static inline cublasStatus_t cublas##letter##gemmStridedBatched(                                                   \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const type* alpha, \
      const type* a, int step_a, long long next_a, const type* b, int step_b, long long next_b, const type* beta,    \
      type* c, int step_c, long long next_c, int count) {                                                            \
    return cublasGemmStridedBatchedEx(                                                                               \
        handle, op_a, op_b, m, n, k, alpha, a, data_type, step_a, next_a, b, data_type, step_b, next_b, beta, c,     \
        data_type, step_c, next_c, count, compute, CUBLAS_GEMM_DEFAULT);                                             \
  }                                                                                                                  \
  static inline cublasStatus_t cublas##letter##gemmBatched(                                                          \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const type* alpha, \
      const type* const a[], int step_a, const type* const b[], int step_b, const type* beta, type* const c[],       \
      int step_c, int count) {                                                                                       \
    return cublasGemmBatchedEx(                                                                                      \
        handle, op_a, op_b, m, n, k, alpha, (const void* const*)a, data_type, step_a, (const void* const*)b,         \
        data_type, step_b, beta, (void* const*)c, data_type, step_c, count, compute, CUBLAS_GEMM_DEFAULT);           \
  }
HOST_CUDA_GEMM(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
HOST_CUDA_GEMM(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
HOST_CUDA_GEMM(H, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)
#undef HOST_CUDA_GEMM
