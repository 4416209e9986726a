// What differs between the PyTorch versions in the flags of float32's precision. A header of its own: few files ask.
#pragma once

#include <ATen/Context.h>

#include <optional>
#include <string>

namespace hostdevice {

// Convolutions have no flag of their own at first, one by name since 2.9, and one by a type later.
template <class Context>
bool read_convolution_flag(bool (Context::*allows)() const, const Context& context) {
  return (context.*allows)();
}
template <class Context>
bool read_convolution_flag(bool (Context::*allows)(const std::string&) const, const Context& context) {
  return (context.*allows)("conv");
}
template <class Context, class Op>
bool read_convolution_flag(bool (Context::*allows)(std::optional<Op>) const, const Context& context) {
  return (context.*allows)(Op::CONV);
}
inline bool allows_tf32_convolutions() {
  return read_convolution_flag(&at::Context::allowTF32CuDNN, at::globalContext());
}

}  // namespace hostdevice
