// Threads that Python would terminate in the middle of C++ code.
#pragma once

namespace hostdevice {

// From now on, a thread that Python terminates sleeps until the process ends. Each such thread calls `first`.
//
// Before Python 3.14, which does the same by itself, a thread that requests the GIL during finalization is unwound with
// pthread_exit(). Unwinding reaches C++ code: destructors that must not throw, which abort the process, and others that
// take the interpreter's state from the thread that finalizes it. A program with a thread in a kernel or in backward()
// would crash and lose its exit status. This function does nothing if pthread_exit() does not unwind (macOS) or cannot
// be replaced.
void keep_threads_from_unwinding(void (*first)()) noexcept;

}  // namespace hostdevice
