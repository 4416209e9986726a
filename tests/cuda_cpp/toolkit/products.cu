// cuBLAS without PyTorch, and a launch with attributes.
#include <cublas_v2.h>

#include <cstdio>

__global__ void fill(float* x, float value) {
  x[threadIdx.x] = value;
}

int main() {
  cublasHandle_t handle;
  cublasCreate(&handle);
  const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, one = 1, zero = 0;
  float c[4], length;
  cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, a, 2, b, 3, &zero, c, 2);
  printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
  cublasGemmEx(
      handle, CUBLAS_OP_T, CUBLAS_OP_N, 2, 2, 3, &one, a, CUDA_R_32F, 3, b, CUDA_R_32F, 3, &one, c, CUDA_R_32F, 2,
      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
  printf("%g %g %g %g\n", c[0], c[1], c[2], c[3]);
  cublasSnrm2(handle, 2, a + 2, 1, &length);
  cublasDestroy(handle);
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 4;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const cudaError_t error = cudaLaunchKernelEx(&config, fill, c, 7);
  printf("%g %d %g\n", length, error, c[3]);
}
