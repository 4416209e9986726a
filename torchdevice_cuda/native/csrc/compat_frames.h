// The calling thread's Python frames, on the Python versions this compiles against, and nothing else.
//
// A kernel runs without the interpreter, and its thread's frames stay as they are until it returns: up to Python 3.12
// they are read where they lie. Later versions are asked, for which the interpreter must be had.
#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000
#include <frameobject.h>
#elif PY_VERSION_HEX < 0x030D0000
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE
#endif

namespace hostdevice {

// Where a frame is: its code, and the byte in it. The code lives as long as the frame does.
struct FramePlace {
  PyCodeObject* code;
  int byte;
};

// Calls `look` with each, from the innermost outwards, until it says that it has seen enough; false if it never did.
// `look` must not run Python.
#if PY_VERSION_HEX < 0x030B0000

template <class F>
bool walk_frames(PyThreadState* thread, const F& look) {
  for (auto* f = thread->frame; f; f = f->f_back)
    if (look(FramePlace{f->f_code, f->f_lasti * static_cast<int>(sizeof(_Py_CODEUNIT))})) return true;
  return false;
}

#elif PY_VERSION_HEX < 0x030D0000

template <class F>
bool walk_frames(PyThreadState* thread, const F& look) {
  if (!thread->cframe) return false;
  for (auto* f = thread->cframe->current_frame; f; f = f->previous) {
    // 3.12 has frames of its own for entering the interpreter: nobody's code.
    if (_PyFrame_IsIncomplete(f) || !PyCode_Check(f->f_code)) continue;
    const int byte = _PyInterpreterFrame_LASTI(f) * static_cast<int>(sizeof(_Py_CODEUNIT));
    if (look(FramePlace{f->f_code, byte})) return true;
  }
  return false;
}

#else

template <class F>
bool walk_frames(PyThreadState* thread, const F& look) {
  const PyGILState_STATE held = PyGILState_Ensure();
  bool found = false;
  PyFrameObject* f = PyThreadState_GetFrame(thread);
  while (f && !found) {
    PyCodeObject* code = PyFrame_GetCode(f);
    found = look(FramePlace{code, PyFrame_GetLasti(f)});
    Py_DECREF(code);  // the frame has it
    PyFrameObject* back = found ? nullptr : PyFrame_GetBack(f);
    Py_DECREF(f);
    f = back;
  }
  PyGILState_Release(held);
  return found;
}

#endif

}  // namespace hostdevice
