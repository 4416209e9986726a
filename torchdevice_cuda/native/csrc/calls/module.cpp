// A module of what needs nothing of torch's: a second to compile, and any torch will do.
#include "rescue/rescue.h"

namespace {

PyModuleDef g_definition{PyModuleDef_HEAD_INIT,
                         "_hostdevice_calls",
                         "Calls of C functions.",
                         -1,
                         nullptr,
                         nullptr,
                         nullptr,
                         nullptr,
                         nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__hostdevice_calls() {
  PyObject* const module = PyModule_Create(&g_definition);
  if (module != nullptr && !hostdevice::add_rescue(module)) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
