#include "rehearsal/own_results.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

namespace hostdevice {
namespace {

using at::Tensor;
using Values = std::vector<c10::IValue>;
using torch::jit::Stack;

Tensor make(const Tensor& like, at::IntArrayRef sizes, c10::ScalarType type) {
  return at::empty(sizes, at::TensorOptions(like.device()).dtype(type));
}

Stack nonzero(const Values& arguments) {
  const Tensor& self = arguments[0].toTensor();
  return {make(self, {self.numel(), self.dim()}, at::kLong)};
}

Stack masked_select(const Values& arguments) {
  const Tensor &self = arguments[0].toTensor(), &mask = arguments[1].toTensor();
  const auto sizes = at::infer_size(self.sizes(), mask.sizes());
  return {make(self, {c10::multiply_integers(sizes)}, self.scalar_type())};
}

Stack unique_elements(const Tensor& self, bool wants_inverse, bool wants_counts) {
  const Tensor none = make(self, {0}, at::kLong);
  return {
      make(self, {self.numel()}, self.scalar_type()), wants_inverse ? make(self, self.sizes(), at::kLong) : none,
      wants_counts ? make(self, {self.numel()}, at::kLong) : none};
}

// The elements, whether they are sorted, whether the inverse is wanted.
Stack unique(const Values& arguments) {
  Stack made = unique_elements(arguments[0].toTensor(), arguments[2].toBool(), false);
  made.pop_back();
  return made;
}
Stack unique2(const Values& arguments) {
  return unique_elements(arguments[0].toTensor(), arguments[2].toBool(), arguments[3].toBool());
}

Stack unique_slices(const Tensor& self, int64_t dim, bool wants_inverse, bool wants_counts) {
  const auto count = self.size(dim);
  return {
      make(self, self.sizes(), self.scalar_type()), make(self, {wants_inverse ? count : 0}, at::kLong),
      make(self, {wants_counts ? count : 0}, at::kLong)};
}
Stack unique_dim(const Values& arguments) {
  return unique_slices(arguments[0].toTensor(), arguments[1].toInt(), arguments[3].toBool(), arguments[4].toBool());
}
Stack unique_dim_consecutive(const Values& arguments) {
  return unique_slices(arguments[0].toTensor(), arguments[1].toInt(), arguments[2].toBool(), arguments[3].toBool());
}
Stack unique_consecutive(const Values& arguments) {
  const Tensor& self = arguments[0].toTensor();
  const bool inverse = arguments[1].toBool(), counts = arguments[2].toBool();
  return arguments[3].isNone() ? unique_elements(self, inverse, counts)
                               : unique_slices(self, arguments[3].toInt(), inverse, counts);
}

// Without the size of the output: as if each element was repeated once.
Stack repeat_interleave(const Values& arguments) {
  const Tensor& repeats = arguments[0].toTensor();
  const auto size = arguments.size() > 1 && arguments[1].isInt() ? arguments[1].toInt() : repeats.numel();
  return {make(repeats, {size}, repeats.scalar_type())};
}

// The largest number is not known: as if there were as many different ones as elements.
Stack bincount(const Values& arguments) {
  const Tensor& self = arguments[0].toTensor();
  const bool has_weights = arguments[1].isTensor();
  return {make(self, {std::max(self.numel(), arguments[2].toInt())}, has_weights ? at::kDouble : at::kLong)};
}

Stack suppress_boxes(const Values& arguments) {
  const Tensor& boxes = arguments[0].toTensor();
  return {make(boxes, {boxes.size(0)}, at::kLong)};
}

// What cuDNN keeps of a recurrent network for the backward pass: so many numbers for each output of each layer, but for
// one output, which is a result. And the memory that it computes in, in parts of a layer's outputs and of the weights:
// fitted to peaks on an H200, within 7% of these, and within 20% for plain networks.
struct OfMode {
  int64_t kept;
  double fixed_mib, outputs, outputs_both_ways, weights;
};
constexpr OfMode kPlain{2, 26, 1.8, 8.0, 5.0};
constexpr std::array<OfMode, 4> kModes{{kPlain, kPlain, {6, 15.2, 2.6, 5.7, 2.7}, {7, 15.2, 2.6, 5.7, 2.7}}};

// The arguments of _cudnn_rnn, which those of its backward pass hold at other places.
struct Recurrent {
  const Tensor& input;
  int64_t weights;
  const OfMode& mode;
  int64_t hidden, layers;
  bool both_ways;

  int64_t outputs() const {
    return input.numel() / input.size(-1) * hidden * (both_ways ? 2 : 1);
  }
  int64_t kept_bytes(bool drops) const {
    const int64_t mask = drops ? outputs() * (layers - 1) / 8 : 0;
    return outputs() * (mode.kept * layers - 1) * static_cast<int64_t>(input.itemsize()) + mask;
  }
  // Memory that is free again after the call.
  Tensor workspace() const {
    const double of_outputs = both_ways ? mode.outputs_both_ways : mode.outputs;
    const double numbers = of_outputs * static_cast<double>(outputs()) + mode.weights * static_cast<double>(weights);
    const double bytes = mode.fixed_mib * (1 << 20) + numbers * static_cast<double>(input.itemsize());
    return make(input, {static_cast<int64_t>(bytes)}, at::kByte);
  }
};

int64_t count_weights(const c10::IValue& weights) {
  int64_t all = 0;
  for (const Tensor& weight : weights.toTensorVector()) all += weight.numel();
  return all;
}

Stack recurrent(const Values& arguments) {
  const Tensor &input = arguments[0].toTensor(), &hx = arguments[4].toTensor();
  const int64_t projected = arguments[8].toInt();
  const Recurrent network{
      input,
      count_weights(arguments[1]),
      kModes.at(static_cast<size_t>(arguments[6].toInt())),
      arguments[7].toInt(),
      arguments[9].toInt(),
      arguments[13].toBool()};
  auto sizes = input.sizes().vec();
  sizes.back() = (projected ? projected : network.hidden) * (network.both_ways ? 2 : 1);
  const bool has_cells = arguments[5].isTensor() && arguments[5].toTensor().defined();
  const bool trains = arguments[12].toBool(), drops = arguments[11].toDouble() > 0;
  // A copy of the weights, unless they are in one chunk.
  const int64_t chunk = arguments[3].isTensor() && arguments[3].toTensor().defined() ? 0 : network.weights;
  Stack results{
      make(input, sizes, input.scalar_type()), make(input, hx.sizes(), input.scalar_type()),
      make(input, has_cells ? arguments[5].toTensor().sizes() : at::IntArrayRef({0}), input.scalar_type()),
      make(input, {trains ? network.kept_bytes(drops) : 0}, at::kByte), make(input, {chunk}, input.scalar_type())};
  network.workspace();
  return results;
}
Stack recurrent_backward(const Values& arguments) {
  const auto like = [](const c10::IValue& v) {
    const bool is_given = v.isTensor() && v.toTensor().defined();
    return is_given ? make(v.toTensor(), v.toTensor().sizes(), v.toTensor().scalar_type()) : Tensor();
  };
  c10::List<Tensor> weights;
  if (arguments.back().toBoolList().get(3))
    for (const Tensor& weight : arguments[1].toTensorVector()) weights.push_back(like(weight));
  Stack results{like(arguments[0]), like(arguments[4]), like(arguments[5]), weights};
  const Recurrent network{
      arguments[0].toTensor(), count_weights(arguments[1]), kModes.at(static_cast<size_t>(arguments[10].toInt())),
      arguments[11].toInt(),   arguments[13].toInt(),       arguments[17].toBool()};
  network.workspace();
  return results;
}

const std::unordered_map<std::string, OwnResults>& all_own_results() {
  static const auto* all = new std::unordered_map<std::string, OwnResults>{
      {"aten::nonzero", {&nonzero, true}},
      {"aten::masked_select", {&masked_select, true}},
      {"aten::_unique", {&unique, true}},
      {"aten::_unique2", {&unique2, true}},
      {"aten::unique_dim", {&unique_dim, true}},
      {"aten::unique_consecutive", {&unique_consecutive, true}},
      {"aten::unique_dim_consecutive", {&unique_dim_consecutive, true}},
      {"aten::repeat_interleave", {&repeat_interleave, true}},
      {"aten::bincount", {&bincount, true}},
      {"torchvision::nms", {&suppress_boxes, true}},
      {"aten::_cudnn_rnn", {&recurrent, false}},
      {"aten::_cudnn_rnn_backward", {&recurrent_backward, false}},
  };
  return *all;
}

}  // namespace

const OwnResults* find_own_results(const std::string& name) {
  const auto found = all_own_results().find(name);
  return found == all_own_results().end() ? nullptr : &found->second;
}

bool replace_masks(c10::IValue& indices) {
  if (!indices.isOptionalTensorList()) return false;
  c10::List<std::optional<Tensor>> replaced;
  bool any = false;
  for (const std::optional<Tensor>& index : indices.toOptionalTensorVector()) {
    const bool is_mask =
        index && index->defined() && (index->scalar_type() == at::kBool || index->scalar_type() == at::kByte);
    any = any || is_mask;
    if (!is_mask) {
      replaced.push_back(index);
      continue;
    }
    for (int64_t d = 0; d < index->dim(); d++) replaced.push_back(make(*index, {index->numel()}, at::kLong));
  }
  if (any) indices = std::move(replaced);
  return any;
}

}  // namespace hostdevice
