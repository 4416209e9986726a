// PyTorch's numbers of 16 bits, with the conversions to CUDA's that they have for CUDA's compiler alone. It is read
// before all other headers of PyTorch's, which are read as the host's.
#pragma once

#include "host_cuda/torch_api_begin.h"

#include <c10/macros/Macros.h>

#include "cuda_bf16.h"
#include "cuda_fp16.h"

#define __CUDACC__ 1
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#undef __CUDACC__

#include "host_cuda/torch_api_end.h"
