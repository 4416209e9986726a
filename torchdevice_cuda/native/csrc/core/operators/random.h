// Random numbers of a CUDA GPU: the same seed gives the same numbers. Compiled for CUDA only.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace hostdevice {

class Registrar;

// Install kernels in PyTorch's dispatch stubs, which its own functions call.
void install_draws();
void install_samples();
// Register operators with kernels of this library.
void register_samples(Registrar& registrar);
void register_counts(Registrar& registrar);
void register_rrelu(Registrar& registrar);

// Return the tensor after dropout, scaled, and the mask of kept elements.
std::tuple<at::Tensor, at::Tensor> drop(
    const at::Tensor& self, double keep, c10::ScalarType mask_type, const std::optional<at::Generator>& generator);
// The dropout mask of CUDA's memory-efficient attention, with one entry per query and key, and the Philox position of
// its draw. The generator advances by as many words, or by `words`.
struct AttentionMask {
  at::Tensor kept;
  // Two scalars on the host; on the device while a graph is captured, since every replay draws from another offset.
  at::Tensor seed, offset;
};
AttentionMask draw_attention_mask(
    const at::Tensor& query, int64_t keys, double p, std::optional<int64_t> words = std::nullopt);
// Compute an earlier mask again.
at::Tensor attention_mask(
    const at::Tensor& query, int64_t keys, double p, const at::Tensor& seed, const at::Tensor& offset);
// Write the numbers that decide which probabilities are dropped; PyTorch's tests compare them.
at::Tensor& fill_with_sequence(at::Tensor& self, double p, int64_t seed, int64_t offset);

}  // namespace hostdevice
