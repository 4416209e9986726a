#pragma once

#include <Python.h>

namespace hostdevice {

// Add `rescue` to a module; return false with an error set if that fails.
bool add_rescue(PyObject* module);

}  // namespace hostdevice
