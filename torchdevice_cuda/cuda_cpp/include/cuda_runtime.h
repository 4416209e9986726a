#pragma once
#define __CUDA_RUNTIME_H__
#include "cuda_runtime_api.h"
#ifdef HOST_CUDA_TRANSLATED
#include "host_cuda/device.h"
//
#include "host_cuda/atomics.h"
#include "host_cuda/math.h"
#include "host_cuda/more_math.h"
#include "host_cuda/rounding.h"
#include "host_cuda/simd.h"
#endif
