// The parts of Python's C API that code without Python bindings needs.
#pragma once

#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace hostdevice {

// Return whether this is the process's first thread, in which Python handles signals.
inline bool is_main_thread() {
#ifdef __linux__
  return syscall(SYS_gettid) == getpid();
#else
  return pthread_main_np() != 0;
#endif
}

// Releases the GIL in a scope: for waiting for a thread that may need it.
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
