// Memory of a recurrent network's weights: cuDNN needs them in one chunk.
#pragma once

#include <ATen/core/Tensor.h>

#include "operators/registration.h"

namespace hostdevice {

// Return the whole chunk, or none if the weights are not in one.
std::optional<at::Tensor> find_weight_buffer(at::TensorList weights, bool biases, bool projected);

// Return whether CUDA computes a network with cuDNN.
bool uses_cudnn(const at::Tensor& input);

// Issue cuDNN's warning about weights that are not in one chunk.
void warn_not_contiguous();
// Check the weights of a network that CUDA would compute with cuDNN and that is computed step by step here.
void check_contiguous_weights(const at::Tensor& input, at::TensorList weights, bool biases, bool projected);

// cuDNN's error, and the results of a network whose backward pass raises it: one that CUDA computes with cuDNN in eval
// mode, and that is computed step by step here.
inline constexpr char kOnlyInTraining[] = "cudnn RNN backward can only be called in training mode";
void refuse_backward_in_eval(const at::Tensor& input, bool train, at::TensorList results);

void register_rnn_weights(Registrar& registrar);

}  // namespace hostdevice
