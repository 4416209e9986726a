// PyTorch's header, with the functions of CUDA's builds.
#pragma once
#pragma push_macro("USE_CUDA")
#undef USE_CUDA
#include_next <torch/csrc/stable/c/shim.h>
#pragma pop_macro("USE_CUDA")
#include "host_cuda/stable_abi.h"
