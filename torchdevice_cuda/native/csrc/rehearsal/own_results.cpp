#include "rehearsal/own_results.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/empty.h>

#include <algorithm>
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

// cuDNN's LSTM keeps the gates, the cells and the outputs of every step for the backward pass.
constexpr int64_t kKeptByLstm = 6;

// The arguments are in the order of _cudnn_rnn.
Stack recurrent(const Values& arguments) {
  const Tensor &input = arguments[0].toTensor(), &hx = arguments[4].toTensor();
  const int64_t hidden = arguments[7].toInt(), projected = arguments[8].toInt(), layers = arguments[9].toInt();
  const int64_t directions = arguments[13].toBool() ? 2 : 1;
  auto sizes = input.sizes().vec();
  sizes.back() = (projected ? projected : hidden) * directions;
  const int64_t kept = input.numel() / input.size(-1) * hidden * layers * directions * kKeptByLstm;
  const bool has_cells = arguments[5].isTensor() && arguments[5].toTensor().defined();
  const bool trains = arguments[12].toBool();
  return {
      make(input, sizes, input.scalar_type()), make(input, hx.sizes(), input.scalar_type()),
      make(input, has_cells ? arguments[5].toTensor().sizes() : at::IntArrayRef({0}), input.scalar_type()),
      make(input, {trains ? kept * static_cast<int64_t>(input.itemsize()) : 0}, at::kByte),
      make(input, {0}, input.scalar_type())};
}
Stack recurrent_backward(const Values& arguments) {
  const auto like = [](const c10::IValue& v) {
    const bool is_given = v.isTensor() && v.toTensor().defined();
    return is_given ? make(v.toTensor(), v.toTensor().sizes(), v.toTensor().scalar_type()) : Tensor();
  };
  c10::List<Tensor> weights;
  if (arguments.back().toBoolList().get(3))
    for (const Tensor& weight : arguments[1].toTensorVector()) weights.push_back(like(weight));
  return {like(arguments[0]), like(arguments[4]), like(arguments[5]), weights};
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
