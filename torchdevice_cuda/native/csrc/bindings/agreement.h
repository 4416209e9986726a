// What ranks of one host say that they do, for collectives that need no Python.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "bindings/module.h"

namespace hostdevice {

// The last to let go of it may be a thread without the interpreter.
inline std::shared_ptr<py::object> hold(const py::object& object) {
  return {new py::object(object), [](py::object* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

// The memory of collectives/agreement.py, which has the layout: a rank writes its call down and looks at the others'.
struct Agreement {
  std::atomic<uint64_t>* words;
  int64_t rank, size, head, stride, ring;
  std::shared_ptr<py::object> memory;

  // An all_reduce; Python says what differs. It is counted if nothing does.
  bool same(const at::Tensor& t) const {
    auto* own = words + head + rank * stride;
    const auto number = own[0].load(std::memory_order_relaxed) + 1;
    const auto place = head + static_cast<int64_t>(number % static_cast<uint64_t>(ring));
    const auto word = (number & 0xffff) << 48 | uint64_t{1} << 43 | static_cast<uint64_t>(t.scalar_type()) << 38 |
        (static_cast<uint64_t>(t.numel()) & ((uint64_t{1} << 38) - 1));
    own[place].store(word);
    for (int64_t other = 0; other < size; ++other) {
      const auto theirs = words[head + other * stride + place].load();
      if (theirs && theirs >> 48 == (number & 0xffff) && theirs != word) return false;
    }
    own[0].store(number, std::memory_order_relaxed);
    return true;
  }
};

// The one of a group's backend, if it has one.
std::shared_ptr<const Agreement> agreement_of(const void* backend);
void bind_agreement(py::module_& m);

}  // namespace hostdevice
