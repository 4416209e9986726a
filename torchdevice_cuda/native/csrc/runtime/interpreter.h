// Python's interpreter, as far as code that knows no Python has to.
#pragma once

#include <Python.h>

namespace hostdevice {

// While one of these lives, the calling thread does not hold the interpreter: for waiting for a thread that may ask for
// it.
class WithoutInterpreter {
 public:
  WithoutInterpreter() : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~WithoutInterpreter() {
    if (state_) PyEval_RestoreThread(state_);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace hostdevice
