// Groups of threads: the grid, a block, tiles of a warp, the threads of a warp that have not ended.
#pragma once
#include "cuda_runtime.h"
#ifdef HOST_CUDA_TRANSLATED
#include "host_cuda/groups.h"
//
#include "host_cuda/group_functions.h"
#endif
