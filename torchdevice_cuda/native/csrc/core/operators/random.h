// Random numbers as a CUDA GPU draws them: the same seed gives the same numbers. Compiled for CUDA only.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace hostdevice {

class Registrar;

// Kernels in PyTorch's tables, which its own functions call.
void install_draws();
void install_samples();
// Operators with kernels of our own.
void register_samples(Registrar& registrar);
void register_counts(Registrar& registrar);
void register_rrelu(Registrar& registrar);

// What is kept of a tensor, scaled, and which of its elements that are.
std::tuple<at::Tensor, at::Tensor> drop(
    const at::Tensor& self, double keep, c10::ScalarType mask_type, const std::optional<at::Generator>& generator);
// What CUDA's memory-efficient attention keeps of its probabilities, of which each query has as many as there are keys;
// and from where it was drawn. The generator moves on by as many words, or as many as are said.
struct AttentionMask {
  at::Tensor kept;
  // Two numbers of the host's; while a graph is captured the device's, since every replay draws from elsewhere.
  at::Tensor seed, offset;
};
AttentionMask draw_attention_mask(
    const at::Tensor& query, int64_t keys, double p, std::optional<int64_t> words = std::nullopt);
// The same once more.
at::Tensor attention_mask(
    const at::Tensor& query, int64_t keys, double p, const at::Tensor& seed, const at::Tensor& offset);
// The numbers that it draws for them: tests of PyTorch's compare with what it drops.
at::Tensor& fill_with_sequence(at::Tensor& self, double p, int64_t seed, int64_t offset);

}  // namespace hostdevice
