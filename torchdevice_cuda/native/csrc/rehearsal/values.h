// Which device memory holds values that were computed, and the values that stand for others.
//
// Large memory is never computed. Small memory is, but what derives from large memory has values that stand for the
// unknown ones: known by the memory's address until it is allocated again.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <string_view>

namespace hostdevice {

bool is_large(const at::Tensor& device_tensor);
// Whether the values of a tensor are not its computed ones.
bool is_uncomputed(const at::Tensor& device_tensor);

// Note whether the memory of a small tensor has computed values.
void mark_uncomputed(const at::Tensor& device_tensor);
void mark_computed(const at::Tensor& device_tensor);

// Return the value that stands for an unknown one: 1 for floating-point numbers, for what `all` and `equal` return and
// for counts; otherwise 0, which is also an index and false. So losses and norms are finite, and loops end.
c10::Scalar get_stand_in(std::string_view op, c10::ScalarType type);
// Fill a small tensor of the device, or a host tensor, with the stand-in.
void fill_with_stand_in(const at::Tensor& t, std::string_view op);

// Notice allocations from now on.
void watch_memory();

}  // namespace hostdevice
