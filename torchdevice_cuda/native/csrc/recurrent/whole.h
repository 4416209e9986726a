// Recurrent networks as CUDA runs them, in one call of cuDNN. A rehearsal computes nothing, so it needs no kernel for
// it.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace hostdevice {

// cuDNN's numbers.
enum class Mode : int64_t { kRelu, kTanh, kLstm, kGru };

struct Network {
  Mode mode;
  const at::Tensor& input;
  const at::Tensor* sizes;  // of the batches of a packed sequence; null for a padded one
  const at::Tensor& hx;
  const at::Tensor* cx;  // null but for an LSTM
  at::TensorList weights;
  bool biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional, batch_first;
};
// Return the output and the last states (those of cells are undefined but for an LSTM), or none if the network is
// computed.
std::optional<std::tuple<at::Tensor, at::Tensor, at::Tensor>> promise_network(const Network& network);

}  // namespace hostdevice
