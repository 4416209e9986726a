// Handles that processes exchange: structures packed into bytes of a fixed length, like CUDA's handles, and names.
#pragma once

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "runtime/shared_memory.h"

namespace hostdevice {

constexpr size_t kHandleBytes = 64;  // the size of CUDA's handles

template <class T>
std::string pack(const T& value, std::string text = {}) {
  const size_t start = text.size();
  text.resize(start + kHandleBytes, '\0');
  std::memcpy(&text[start], &value, sizeof(T));
  return text;
}

template <class T>
T unpack(const std::string& text, size_t start = 0) {
  T value;
  std::memcpy(&value, text.data() + start, sizeof(T));
  return value;
}

// Return a name in the format of CUDA's reference counters, because programs print it.
inline std::string name_of(const SharedRange& p) {
  char text[128];
  std::snprintf(
      text, sizeof text, "/torch_%" PRId64 "_%" PRId64 "_%" PRIx64 "_%" PRIx64, p.process, p.object, p.identity,
      p.offset);
  return text;
}

// Return the range of this size that a name refers to.
inline std::optional<SharedRange> parse_range_name(const std::string& name, size_t size) {
  SharedRange p{};
  p.size = size;
  const int read = std::sscanf(
      name.c_str(), "/torch_%" SCNd64 "_%" SCNd64 "_%" SCNx64 "_%" SCNx64, &p.process, &p.object, &p.identity,
      &p.offset);
  return read == 4 && name_of(p) == name ? std::optional<SharedRange>(p) : std::nullopt;
}

}  // namespace hostdevice
