#pragma once
#include <c10/cuda/CUDAException.h>
#include <cublas_v2.h>
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define TORCH_CUDABLAS_CHECK(EXPR)                                                                        \
  do {                                                                                                    \
    const cublasStatus_t host_cuda_status = EXPR;                                                         \
    TORCH_CHECK(                                                                                          \
        host_cuda_status == CUBLAS_STATUS_SUCCESS, "CUDA error: ", cublasGetStatusName(host_cuda_status), \
        " when calling `" #EXPR "`");                                                                     \
  } while (0)
