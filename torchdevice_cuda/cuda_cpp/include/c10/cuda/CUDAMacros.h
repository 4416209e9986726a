#pragma once
#include <c10/macros/Macros.h>
#define C10_CUDA_API
#define C10_CUDA_EXPORT
#define C10_CUDA_IMPORT
#define C10_COMPILE_TIME_MAX_GPUS 120

// The libraries of a CUDA build export functions of the same names, which the linker would call in place of these. So
// these are in a namespace of their own, which programs need not name.
