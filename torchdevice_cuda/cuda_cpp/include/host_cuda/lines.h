// The program's line that an instruction was compiled from, in checked builds: asked of the tool that comes with the
// compiler, once, for the line that is reported.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "host_cuda/block.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// Files whose lines are not the program's; what they do is said of the line that calls them.
inline bool is_library(const std::string& file) {
  for (const char* part :
       {"/cuda_cpp/include/", "/ptx/include/", "/usr/", "/include/ATen/", "/include/c10/", "/include/torch/", "/c++/",
        "??"})
    if (file.find(part) != std::string::npos) return true;
  return false;
}

// Where an instruction is: in the function that it is part of, which may have been inlined, and in the program.
struct Lines {
  Where own, programs;
};
inline Lines find_lines(const void* after) {
  Dl_info found;
  const char* const address = static_cast<const char*>(after) - 1;
  if (!dladdr(address, &found) || !found.dli_fname) return {};
  char command[4200];
  snprintf(
      command, sizeof command, "addr2line -i -e '%s' 0x%lx 2>/dev/null", found.dli_fname,
      static_cast<unsigned long>(address - static_cast<const char*>(found.dli_fbase)));
  FILE* const lines = popen(command, "r");
  if (!lines) return {};
  Where first{nullptr, 0}, programs{nullptr, 0};
  char text[4200];
  while (fgets(text, sizeof text, lines)) {
    const std::string line(text);
    const size_t colon = line.rfind(':');
    if (colon == std::string::npos || line[0] == '?') continue;
    // Kept for good: a process reports few of them.
    size_t skipped = 0;  // the folder that it was compiled in (nvcc.py)
    while (line.compare(skipped, 2, "./") == 0) skipped += 2;
    const Where at{strdup(line.substr(skipped, colon - skipped).c_str()), atoi(line.c_str() + colon + 1)};
    if (!first.file) first = at;
    if (!programs.file && !is_library(at.file)) programs = at;
  }
  pclose(lines);
  return {first, programs.file ? programs : first};
}
inline Where line_of(const void* after) {
  return find_lines(after).programs;
}

}  // namespace host_cuda
#pragma GCC visibility pop
