// Random numbers as a CUDA GPU draws them: the same seed gives the same numbers. Compiled for CUDA only.
#pragma once

#include <ATen/core/Tensor.h>

#include "operators/registration.h"

namespace hostdevice {

// Kernels in PyTorch's tables, which its own functions call.
void install_draws();
void install_samples();
// Operators with kernels of our own.
void register_samples(Registrar& registrar);
void register_counts(Registrar& registrar);
void register_dropout(Registrar& registrar);

// What CUDA's memory-efficient attention keeps of its probabilities, of which each query has as many as there are keys.
at::Tensor draw_attention_mask(const at::Tensor& query, int64_t keys, double p);

}  // namespace hostdevice
