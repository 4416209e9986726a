#include "runtime/libraries.h"

#ifdef __linux__
#include <elf.h>
#include <link.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>
#endif

namespace hostdevice {

#ifdef __linux__
namespace {

// CUDA compilers put the GPU's code into this section.
constexpr char kSection[] = ".nv_fatbin";

template <class T>
bool read_at(std::ifstream& file, uint64_t offset, T* into, size_t count) {
  return file.seekg(static_cast<std::streamoff>(offset)) &&
      file.read(reinterpret_cast<char*>(into), static_cast<std::streamsize>(count * sizeof(T)));
}

bool has_gpu_code(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) header;
  if (!read_at(file, 0, &header, 1) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header.e_shentsize != sizeof(ElfW(Shdr)) || header.e_shstrndx >= header.e_shnum) return false;
  std::vector<ElfW(Shdr)> sections(header.e_shnum);
  if (!read_at(file, header.e_shoff, sections.data(), sections.size())) return false;
  const auto& strings = sections[header.e_shstrndx];
  std::vector<char> names(strings.sh_size + 1, '\0');
  if (!read_at(file, strings.sh_offset, names.data(), strings.sh_size)) return false;
  for (const auto& section : sections)
    if (section.sh_name < strings.sh_size && !std::strcmp(&names[section.sh_name], kSection)) return true;
  return false;
}

int collect_path(dl_phdr_info* info, size_t, void* found) {
  if (info->dlpi_name && *info->dlpi_name) static_cast<std::vector<std::string>*>(found)->push_back(info->dlpi_name);
  return 0;
}

}  // namespace

bool gpu_code_was_loaded() {
  static std::mutex mutex;
  static auto* seen = new std::unordered_set<std::string>;
  std::vector<std::string> loaded;
  dl_iterate_phdr(&collect_path, &loaded);
  bool found = false;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const auto& path : loaded)
    if (seen->insert(path).second && !found) found = has_gpu_code(path);
  return found;
}

#else

// CUDA supports only Linux and Windows, and there is no virtual GPU on Windows.
bool gpu_code_was_loaded() {
  return false;
}

#endif

}  // namespace hostdevice
