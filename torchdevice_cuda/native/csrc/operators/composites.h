// Operators that only one kind of device has (or that go through a table a CPU build has no entry for), written with
// others. Each file registers its own.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "operators/registration.h"

namespace hostdevice {

using OptTensor = std::optional<at::Tensor>;

inline bool given(const OptTensor& t) {
  return t.has_value() && t->defined();
}

void register_storages(Registrar& registrar);

// Compiled for CUDA only.
void register_attention_choice(Registrar& registrar);
void register_fused_attention(Registrar& registrar);
void register_fused_recurrent_cells(Registrar& registrar);
void register_fused_lstm(Registrar& registrar);
void register_synchronized_batch_norm(Registrar& registrar);
void register_small(Registrar& registrar);
void register_linear_algebra(Registrar& registrar);
void register_ties(Registrar& registrar);
void register_sparse_sums();
void register_nested();
void register_products(Registrar& registrar);
void register_scaled_products(Registrar& registrar);
void register_cudnn(Registrar& registrar);
void register_quantized(Registrar& registrar);
void register_embedding_bags(Registrar& registrar);
void register_random(Registrar& registrar);
void register_absent_libraries(Registrar& registrar);

// Compiled for an Apple GPU only.
void register_attention(Registrar& registrar);
void register_apple_composites(Registrar& registrar);

}  // namespace hostdevice
