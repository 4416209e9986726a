// What nvcc gives every source before its first line. PyTorch's headers have been read by then, as the host's.
#pragma once

#include <cassert>
#include <cstdio>

#include "cuda_runtime.h"
#ifdef HOST_CUDA_CHECKED
#include "host_cuda/checks.h"
#elif defined(HOST_CUDA_COUNTED)
#include "host_cuda/count_accesses.h"
#endif
#ifdef HOST_CUDA_PTX
#include "host_cuda/ptx_threads.h"
#endif

#define __CUDACC__ 1
#define __NVCC__ 1
#define __CUDACC_VER_MAJOR__ (CUDART_VERSION / 1000)
#define __CUDACC_VER_MINOR__ (CUDART_VERSION % 1000 / 10)
#define __CUDACC_VER_BUILD__ 0
#define __CUDACC_EXTENDED_LAMBDA__ 1
#define __CUDACC_RELAXED_CONSTEXPR__ 1
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ HOST_CUDA_ARCH
#endif
