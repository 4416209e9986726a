// Stands for libcuda and NVML: notes who was called, and says that there is no device.
#include <stdio.h>
#include <stdlib.h>

static int noted(const char* name) {
  FILE* file = fopen(getenv("NVIDIA_CALLS"), "a");
  if (file) {
    fprintf(file, "%s\n", name);
    fclose(file);
  }
  return 100;
}

#define NOTED(name)      \
  int name(void) {       \
    return noted(#name); \
  }

NOTED(cuInit)
NOTED(cuDriverGetVersion)
NOTED(cuDeviceGet)
NOTED(cuDeviceGetCount)
NOTED(cuDeviceGetAttribute)
NOTED(cuDevicePrimaryCtxGetState)
NOTED(cuCtxGetCurrent)
NOTED(cuCtxGetDevice)
NOTED(cuGetErrorName)
NOTED(cuGetErrorString)
NOTED(cuGetExportTable)
NOTED(cuGetProcAddress)
NOTED(cuGetProcAddress_v2)
NOTED(cuPointerGetAttribute)
NOTED(nvmlInit)
NOTED(nvmlInit_v2)
NOTED(nvmlInitWithFlags)
NOTED(nvmlDeviceGetCount)
NOTED(nvmlDeviceGetCount_v2)
