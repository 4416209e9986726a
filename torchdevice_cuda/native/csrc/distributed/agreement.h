// Comparison of the collectives that ranks of one host call, for collectives that need no Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "bindings/module.h"

namespace hostdevice {

// Keep a Python object alive; the thread that releases it last may not hold the GIL.
inline std::shared_ptr<py::object> hold(const py::object& object) {
  return {new py::object(object), [](py::object* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

// The memory of distributed/agreement.py, which defines the layout: a rank writes its call and reads the others'.
struct __attribute__((visibility("hidden"))) Agreement {
  std::atomic<uint64_t>* words;
  int64_t rank, size, head, stride, ring;
  int64_t text, text_words;  // offset and capacity of the failure message in a rank's part
  std::shared_ptr<py::object> memory;

  // Compare an all_reduce with the other ranks' calls. Python reports what differs; equal calls are counted here.
  bool matches_other_ranks(const at::Tensor& t, uint64_t op) const {
    if (words[0].load(std::memory_order_relaxed) != 0) return false;
    auto* own = part(rank);
    const auto number = own[0].load(std::memory_order_relaxed) + 1;
    const auto entry = head + 2 * static_cast<int64_t>(number % static_cast<uint64_t>(ring));
    const auto word = (number & 0xffff) << 48 | uint64_t{1} << 43 | static_cast<uint64_t>(t.scalar_type()) << 38 |
        (static_cast<uint64_t>(t.numel()) & ((uint64_t{1} << 38) - 1));
    const auto detail = op | uint64_t{1} << 32;
    own[entry].store(detail, std::memory_order_relaxed);
    own[entry + 1].store(word);
    for (int64_t other = 0; other < size; ++other) {
      const auto* theirs = part(other) + entry;
      const auto found = theirs[1].load();
      if (found && found >> 48 == (number & 0xffff) && (found != word || theirs[0].load() != detail)) return false;
    }
    own[0].store(number, std::memory_order_relaxed);
    return true;
  }

  // Return why the group failed, from the first rank that recorded a reason.
  std::optional<std::string> failure() const {
    if (words[0].load() == 0) return std::nullopt;
    for (int64_t other = 0; other < size; ++other) {
      const auto* theirs = part(other);
      const auto length = std::min(theirs[1].load(), static_cast<uint64_t>(text_words) * sizeof(uint64_t));
      if (length == 0) continue;
      std::string found(length, '\0');
      std::memcpy(found.data(), static_cast<const void*>(theirs + text), length);
      return found;
    }
    return std::nullopt;
  }

  // Report a failure to the other ranks, unless one is known.
  void fail(const std::string& why) const {
    if (words[0].load() != 0 || why.empty()) return;
    auto* own = part(rank);
    const auto length = std::min(why.size(), static_cast<size_t>(text_words) * sizeof(uint64_t));
    std::memcpy(static_cast<void*>(own + text), why.data(), length);
    own[1].store(length);
    words[0].store(1);
  }

  std::atomic<uint64_t>* part(int64_t of) const {
    return words + head + of * stride;
  }
};

// Return the agreement of a group's backend, or null.
std::shared_ptr<const Agreement> agreement_of(const void* backend);
void bind_agreement(py::module_& m);

}  // namespace hostdevice
