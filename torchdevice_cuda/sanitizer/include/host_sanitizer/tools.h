// Which tools check the kernels of this library: the setting's text, as settings/sanitizer.py writes it.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <utility>
#include <vector>

#pragma GCC visibility push(hidden)
namespace host_sanitizer {

enum Tool : unsigned { kMemcheck = 1, kRacecheck = 2, kInitcheck = 4, kSynccheck = 8 };
constexpr const char* kToolNames[] = {"memcheck", "racecheck", "initcheck", "synccheck"};

inline const char* name_of(Tool tool) {
  return kToolNames[__builtin_ctz(tool)];
}

struct Settings {
  unsigned tools = 0;
  bool has_seed = false;
  uint64_t seed = 0;
};

inline Settings read_settings(const char* text) {
  Settings found;
  const char* at = text ? text : "";
  if (strcmp(at, "none") == 0) at = "";
  while (*at && *at != ':') {
    unsigned known = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const size_t length = strlen(kToolNames[i]);
      const char after = strncmp(at, kToolNames[i], length) == 0 ? at[length] : '?';
      if (after == '\0' || after == ',' || after == ':') {
        known = 1u << i;
        at += length + (after == ',');
        break;
      }
    }
    if (!known) {
      fprintf(
          stderr,
          "TORCHDEVICE_SANITIZE='%s' cannot be read; allowed: memcheck, racecheck, initcheck, synccheck, "
          "separated by commas without spaces, and :SEED\n",
          text);
      _exit(2);
    }
    found.tools |= known;
  }
  if (*at == ':') {
    found.has_seed = true;
    found.seed = strtoull(at + 1, nullptr, 10);
  }
  return found;
}
inline const Settings& settings() {
  static const Settings found = read_settings(getenv("TORCHDEVICE_SANITIZE"));
  return found;
}
inline bool is_on(unsigned tools) {
  return (settings().tools & tools) != 0;
}

// The order in which blocks run; empty for that of their numbers. A GPU promises none.
inline std::vector<uint32_t> choose_order(uint64_t count) {
  std::vector<uint32_t> order;
  if (!settings().has_seed || count > UINT32_MAX) return order;
  order.resize(count);
  for (uint64_t i = 0; i < count; ++i) order[i] = static_cast<uint32_t>(i);
  uint64_t state = settings().seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
  for (uint64_t i = count; i > 1; --i) {
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    std::swap(order[i - 1], order[(state * 0x2545f4914f6cdd1du >> 32) * i >> 32]);
  }
  return order;
}

}  // namespace host_sanitizer
#pragma GCC visibility pop
