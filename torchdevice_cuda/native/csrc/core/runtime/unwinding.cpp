#include "runtime/unwinding.h"

#ifdef __linux__

#include <Python.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

namespace hostdevice {
namespace {

void (*g_first)() = nullptr;

[[noreturn]] void sleep_forever(void*) {
  g_first();
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

// The relocation tables of a loaded object, which locate the functions of other objects that it calls by name.
struct Tables {
  ElfW(Addr) base = 0;
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * calls = nullptr;  // DT_JMPREL
  size_t calls_bytes = 0;
  const ElfW(Rela) * others = nullptr;  // DT_RELA
  size_t others_bytes = 0;

  explicit Tables(const dl_phdr_info& info) : base(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; i++) {
      if (info.dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
      for (auto* d = at<const ElfW(Dyn)>(info.dlpi_phdr[i].p_vaddr); d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB) symbols = absolute<const ElfW(Sym)>(d->d_un.d_ptr);
        if (d->d_tag == DT_STRTAB) names = absolute<const char>(d->d_un.d_ptr);
        if (d->d_tag == DT_JMPREL) calls = absolute<const ElfW(Rela)>(d->d_un.d_ptr);
        if (d->d_tag == DT_PLTRELSZ) calls_bytes = d->d_un.d_val;
        if (d->d_tag == DT_RELA) others = absolute<const ElfW(Rela)>(d->d_un.d_ptr);
        if (d->d_tag == DT_RELASZ) others_bytes = d->d_un.d_val;
      }
    }
  }

  template <class T>
  T* at(ElfW(Addr) offset) const {
    return reinterpret_cast<T*>(base + offset);
  }
  // glibc has converted these to addresses; other C libraries leave them as offsets.
  template <class T>
  T* absolute(ElfW(Addr) value) const {
    return reinterpret_cast<T*>(value < base ? base + value : value);
  }

  void replace(const char* name, void* with) const {
    if (!symbols || !names) return;
    replace(calls, calls_bytes, name, with);
    replace(others, others_bytes, name, with);
  }

 private:
  void replace(const ElfW(Rela) * table, size_t bytes, const char* name, void* with) const {
    if (!table) return;
    for (const auto* r = table; r < table + bytes / sizeof(*table); r++) {
      const auto symbol = r->r_info >> (sizeof(void*) == 8 ? 32 : 8);
      if (symbol == 0 || std::strcmp(names + symbols[symbol].st_name, name) != 0) continue;
      auto** slot = at<void*>(r->r_offset);
      // The loader often writes this page once and then protects it.
      const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
      void* start = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) / page * page);
      if (mprotect(start, page, PROT_READ | PROT_WRITE) == 0) __atomic_store_n(slot, with, __ATOMIC_RELEASE);
    }
  }
};

bool contains_code(const dl_phdr_info& info, const void* code) {
  const auto address = reinterpret_cast<ElfW(Addr)>(code);
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const auto& part = info.dlpi_phdr[i];
    const auto start = info.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && address >= start && address < start + part.p_memsz) return true;
  }
  return false;
}

// Patch only Python's object: other code may end its threads with pthread_exit().
int visit(dl_phdr_info* info, size_t, void*) {
  if (!contains_code(*info, reinterpret_cast<const void*>(&PyThread_exit_thread))) return 0;
  Tables(*info).replace("pthread_exit", reinterpret_cast<void*>(&sleep_forever));
  return 1;
}

}  // namespace

void keep_threads_from_unwinding(void (*first)()) noexcept {
  g_first = first;
  dl_iterate_phdr(&visit, nullptr);
}

}  // namespace hostdevice

#else

namespace hostdevice {

void keep_threads_from_unwinding(void (*)()) noexcept {}

}  // namespace hostdevice

#endif
