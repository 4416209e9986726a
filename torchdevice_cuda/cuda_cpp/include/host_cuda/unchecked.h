// Kernels that were compiled without checks, in a process that wants them checked.
#pragma once

#include <dlfcn.h>

// C++ beside CUDA C++ is compiled with the folder of the toolkit alone.
#include "../../../sanitizer/include/host_sanitizer/findings.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Warn, once for a library, that --sanitize sees none of its kernels.
inline void warn_if_unchecked() {
  static const char here = 0;
  static const bool is_wanted = [] {
    if (!host_sanitizer::settings().tools) return false;
    Dl_info found{};
    const bool is_known = dladdr(&here, &found) != 0 && found.dli_fname;
    const char* library = is_known ? found.dli_fname : "this program";
    fprintf(
        stderr,
        "torchdevice_cuda: --sanitize does not check the kernels of %s: it was compiled without TORCHDEVICE_SANITIZE. "
        "Compile it again with the variable set (docs/sanitize.md).\n",
        library);
    std::string line = "{\"unchecked\": ";
    host_sanitizer::add_quoted(line, library);
    host_sanitizer::append(line + "}\n");
    return true;
  }();
  (void)is_wanted;
}

}  // namespace host_cuda
#pragma GCC visibility pop
