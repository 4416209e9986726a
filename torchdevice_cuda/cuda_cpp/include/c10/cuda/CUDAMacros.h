#pragma once
#include <c10/macros/Macros.h>
#define C10_CUDA_API
#define C10_CUDA_EXPORT
#define C10_CUDA_IMPORT
#define C10_COMPILE_TIME_MAX_GPUS 120
