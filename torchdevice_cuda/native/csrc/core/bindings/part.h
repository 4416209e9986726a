// How a part of the device begins. Python imports it as a module of its own, which has the part's functions.
#pragma once

#include <Python.h>

namespace hostdevice {

// A module that `begin` has filled; an error of C++ becomes one of Python's.
PyObject* start_part(const char* name, void (*begin)(PyObject* module));

}  // namespace hostdevice

#define HOSTDEVICE_PART(name, begin)                                 \
  PyMODINIT_FUNC PyInit__hostdevice_cuda_##name() {                  \
    return hostdevice::start_part("_hostdevice_cuda_" #name, begin); \
  }
