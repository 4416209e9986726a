#pragma once
#include "host_cuda/blas.h"
#include "host_cuda/blas_vectors.h"
