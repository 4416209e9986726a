// The entry point of a part of the device. Python imports each part as a module, which holds the part's functions.
#pragma once

#include <Python.h>

namespace hostdevice {

// Create a module and let `begin` fill it; a C++ exception becomes a Python ImportError.
PyObject* start_part(const char* name, void (*begin)(PyObject* module));

}  // namespace hostdevice

#define HOSTDEVICE_PART(name, begin)                                 \
  PyMODINIT_FUNC PyInit__hostdevice_cuda_##name() {                  \
    return hostdevice::start_part("_hostdevice_cuda_" #name, begin); \
  }
