// Of the driver's interface: its types. Calls of it are refused by the linker, by name.
#pragma once
#include "cuda_runtime_api.h"
#ifndef CUDA_VERSION
#define CUDA_VERSION CUDART_VERSION
#endif
typedef cudaStream_t CUstream;
typedef cudaEvent_t CUevent;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
