// Python's interpreter, as far as code that knows no Python has to.
#pragma once

#include <Python.h>
#include <pthread.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#endif

namespace hostdevice {

// Whether this is the process's first thread, the one in which Python handles signals.
inline bool is_main_thread() {
#ifdef __linux__
  return syscall(SYS_gettid) == getpid();
#else
  return pthread_main_np() != 0;
#endif
}

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
