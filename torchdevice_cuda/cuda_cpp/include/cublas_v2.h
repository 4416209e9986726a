#pragma once
#define CUBLAS_V2_H_
#define CUBLAS_API_H_
#include "host_cuda/blas.h"
#include "host_cuda/blas_vectors.h"
#ifdef C10_API
#include "host_cuda/current_blas.h"
#endif
