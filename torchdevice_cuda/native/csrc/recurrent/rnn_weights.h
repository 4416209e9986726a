// Memory of a recurrent network's weights: cuDNN needs them in one chunk.
#pragma once

#include <ATen/core/Tensor.h>

#include "operators/registration.h"

namespace hostdevice {

// Return the whole chunk, or none if the weights are not in one.
std::optional<at::Tensor> find_weight_buffer(at::TensorList weights, bool biases, bool projected);

// Issue cuDNN's warning about weights that are not in one chunk.
void warn_not_contiguous();
// Check the weights of a network that CUDA would compute with cuDNN and that is computed step by step here.
void check_contiguous_weights(const at::Tensor& input, at::TensorList weights, bool biases, bool projected);

void register_rnn_weights(Registrar& registrar);

}  // namespace hostdevice
