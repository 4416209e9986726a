#pragma once

#include <Python.h>

namespace hostdevice {

// Adds `rescue` to a module; false with an error set if that fails.
bool add_rescue(PyObject* module);

}  // namespace hostdevice
