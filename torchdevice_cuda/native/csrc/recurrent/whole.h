// Recurrent networks as CUDA runs them, in one call of cuDNN. A rehearsal computes nothing, so it needs no kernel for
// it.
#pragma once

#include <ATen/core/Tensor.h>

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace hostdevice {

// A network's tensors as autocast gives them to cuDNN: in float16, whichever type autocast has, the weights in one
// chunk. While it lives, its thread is below autocast.
struct CastNetwork {
  at::Tensor input;
  std::vector<at::Tensor> states, weights;
  c10::impl::ExcludeDispatchKeyGuard below;
  CastNetwork(const at::Tensor& input, at::TensorList states, at::TensorList weights);
  ~CastNetwork();
  CastNetwork(const CastNetwork&) = delete;
  CastNetwork& operator=(const CastNetwork&) = delete;
};
// Cast a network that CUDA computes with cuDNN; null without autocast.
std::unique_ptr<CastNetwork> cast_network(const at::Tensor& input, at::TensorList states, at::TensorList weights);
// Whether the calling thread computes one.
bool is_cast_network();

// cuDNN's numbers.
enum class Mode : int64_t { kRelu, kTanh, kLstm, kGru };

struct Network {
  Mode mode;
  const at::Tensor& input;
  const at::Tensor* sizes;  // of the batches of a packed sequence; null for a padded one
  at::TensorList states;    // those of an LSTM's cells, too
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
