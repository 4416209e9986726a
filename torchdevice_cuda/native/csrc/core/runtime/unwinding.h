// Threads that Python would end in the middle of C++.
#pragma once

namespace hostdevice {

// From now on a thread that Python ends sleeps instead, until the process is gone. `first` is called by each that does.
//
// Until Python 3.14, which does the same by itself, a thread that asks for the interpreter while that ends is unwound
// with pthread_exit(). Unwinding meets C++: destructors that must not throw, so that the process aborts, and others
// that take the interpreter's state from the thread that is ending it. A program with a thread in a kernel or in
// backward() would die of it, its exit status lost. Where pthread_exit() does not unwind (macOS) or cannot be reached,
// nothing happens.
void keep_threads_from_unwinding(void (*first)()) noexcept;

}  // namespace hostdevice
