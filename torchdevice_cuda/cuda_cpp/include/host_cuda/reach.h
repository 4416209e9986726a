// What a kernel may touch besides shared memory, in checked builds: memory of the device, its own stack, what the
// program declared outside of functions.
#pragma once

#include <link.h>
#include <pthread.h>

#include "host_cuda/launch.h"

#pragma GCC visibility push(hidden)
namespace host_cuda {

// An allocation, the one that an address is in or beside.
struct Nearest {
  const char* begin = nullptr;
  size_t bytes = 0;
};

struct Search {
  const char* address;
  Range found;
};
// Variables of a library: where they are loaded, and the thread's own.
inline int search_image(dl_phdr_info* image, size_t, void* p) {
  auto& search = *static_cast<Search*>(p);
  for (int i = 0; i < image->dlpi_phnum; ++i) {
    const auto& part = image->dlpi_phdr[i];
    const char* begin = nullptr;
    if (part.p_type == PT_LOAD)
      begin = reinterpret_cast<const char*>(image->dlpi_addr + part.p_vaddr);
    else if (part.p_type == PT_TLS)
      begin = static_cast<const char*>(image->dlpi_tls_data);
    if (begin && search.address >= begin && search.address < begin + part.p_memsz) {
      search.found = {begin, begin + part.p_memsz, part.p_type == PT_LOAD && (part.p_flags & PF_W) != 0};
      return 1;
    }
  }
  return 0;
}
// The stack on which a launch's first thread runs.
inline Range system_stack() {
  static thread_local Range found;
  if (!found.begin) {
    pthread_attr_t attributes;
    void* begin = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
      pthread_attr_getstack(&attributes, &begin, &bytes);
      pthread_attr_destroy(&attributes);
    }
    found = {static_cast<const char*>(begin), static_cast<const char*>(begin) + bytes};
  }
  return found;
}
template <class T>
Range range_of(const T* object) {
  const auto* p = reinterpret_cast<const char*>(object);
  return {p, p + sizeof(T)};
}

inline bool search_given(const char* p, Nearest& near) {
  const std::lock_guard<std::mutex> lock(given().mutex);
  auto it = given().all.upper_bound(p);
  if (it == given().all.begin()) return false;
  --it;
  if (p >= it->first + it->second.bytes + kGuard) return false;
  near = {it->first, it->second.bytes};
  return true;
}

// Whether a kernel may touch `n` bytes there, and in which range they are. Where the device's memory is not ours (no
// virtual GPU), what is unknown may be a tensor's.
inline bool reach(Worker& w, const char* p, size_t n, Nearest& near, Range& range) {
  for (const Range r : {w.stack_range(), system_stack(), range_of(&w), range_of(w.launch), range_of(&worker)})
    if (r.has(p, n)) {
      w.watch.remember(range = r);
      return true;
    }
  const KernelAbi* device = kernel_abi();
  if (search_given(p, near)) {
    range = {near.begin, near.begin + near.bytes, true, true};
    if (!range.has(p, n)) return false;
    w.watch.remember(range);
    return true;
  }
  const Memory kind = device ? device->find_memory(p, &near.begin, &near.bytes) : Memory::kOther;
  range = {p, p + n, true, false};
  if (kind == Memory::kReached) return true;
  if (kind == Memory::kDevice) {
    range = {near.begin, near.begin + near.bytes, true, true};
    if (!range.has(p, n)) return false;
    w.watch.remember(range);
    return true;
  }
  Search search{p, {}};
  if (dl_iterate_phdr(&search_image, &search)) {
    w.watch.remember(range = search.found);
    return true;
  }
  near = {};
  if (reinterpret_cast<uintptr_t>(p) < 4096) return false;
  return !device;
}

}  // namespace host_cuda
#pragma GCC visibility pop
