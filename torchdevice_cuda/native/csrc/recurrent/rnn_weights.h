// Where the weights of a recurrent network lie: cuDNN wants them in one piece.
#pragma once

#include <ATen/core/Tensor.h>

#include "operators/registration.h"

namespace hostdevice {

// All of the piece, or nothing where they lie apart.
std::optional<at::Tensor> piece_of(at::TensorList weights, bool biases, bool projected);

// What cuDNN's networks say when they do.
void warn_of_pieces();
// The same for a network that CUDA would have cuDNN compute, and that is computed step by step here.
void look_at_pieces(const at::Tensor& input, at::TensorList weights, bool biases, bool projected);

void register_rnn_weights(Registrar& registrar);

}  // namespace hostdevice
