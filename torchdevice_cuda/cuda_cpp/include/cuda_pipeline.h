#pragma once
#include "cuda_pipeline_primitives.h"
#ifdef HOST_CUDA_TRANSLATED
#include "host_cuda/pipeline.h"
#endif
