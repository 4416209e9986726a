#include "bindings/part.h"

#include <exception>

namespace hostdevice {

PyObject* start_part(const char* name, void (*begin)(PyObject* module)) {
  // The definition must outlive the module, which lives as long as the process.
  auto* definition =
      new PyModuleDef{PyModuleDef_HEAD_INIT, name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};
  PyObject* const module = PyModule_Create(definition);
  if (module == nullptr) return nullptr;
  try {
    begin(module);
    return module;
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_ImportError, error.what());
  }
  Py_DECREF(module);
  return nullptr;
}

}  // namespace hostdevice
