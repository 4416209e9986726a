// Kernels that were compiled without checks, in a process that wants them checked.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Warn, once for a library, that --sanitize sees none of its kernels.
inline void warn_if_unchecked() {
  static const char here = 0;
  static const bool is_asked = [] {
    const char* tools = getenv("TORCHDEVICE_SANITIZE");
    if (!tools || !*tools || strcmp(tools, "none") == 0) return false;
    Dl_info library{};
    const bool is_known = dladdr(&here, &library) != 0 && library.dli_fname;
    fprintf(
        stderr,
        "torchdevice_cuda: --sanitize does not check the kernels of %s: it was compiled without TORCHDEVICE_SANITIZE. "
        "Compile it again with the variable set (docs/sanitize.md).\n",
        is_known ? library.dli_fname : "this program");
    return true;
  }();
  (void)is_asked;
}

}  // namespace host_cuda
#pragma GCC visibility pop
