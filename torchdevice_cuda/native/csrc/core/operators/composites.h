// Operators that only one kind of device has, or that use a dispatch stub without an entry in CPU builds, composed of
// other operators. Each file registers its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "operators/registration.h"

namespace hostdevice {

using OptTensor = std::optional<at::Tensor>;

inline bool is_defined(const OptTensor& t) {
  return t.has_value() && t->defined();
}

void register_storages(Registrar& registrar);

// Compiled for CUDA only.
void register_small(Registrar& registrar);
void register_convolutions(Registrar& registrar);
void register_random(Registrar& registrar);
void register_reductions(Registrar& registrar);
void register_absent_libraries(Registrar& registrar);
void install_stubs();

// Compiled for an Apple GPU only.
void register_attention(Registrar& registrar);
void register_apple_composites(Registrar& registrar);

}  // namespace hostdevice
