// One recorded call: a kernel, its arguments, and the memory that it allocated.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <string>
#include <vector>

#include "runtime/captured_allocations.h"
#include "runtime/device.h"

namespace hostdevice {

struct OperatorInfo;

class Node {
 public:
  // A call that has run: its arguments as they are afterwards, and its results.
  Node(
      const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKeySet keys, c10::DeviceIndex index,
      c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> results, CapturedAllocations allocations);
  // Other work on the device.
  Node(
      std::string name, std::function<void()> work, std::vector<const void*> addresses = {},
      CapturedAllocations allocations = {}, bool computes = true);

  // Run below autograd; the caller restores the thread's device. Return false if a result is laid out otherwise than
  // the expected one: its elements are then copied one by one.
  bool replay() const;

  const std::string& name() const {
    return name_;
  }
  // False for events and sleeps, which report themselves to profilers.
  bool computes() const {
    return computes_;
  }
  // For a copy: its name in profiles, or null, and its size.
  const char* get_copy_name() const {
    return copy_name_;
  }
  int64_t get_copied_bytes() const {
    return copied_bytes_;
  }
  c10::DeviceIndex device() const {
    return index_;
  }
  // Addresses of device memory that it reads or writes, other than its own.
  const std::vector<const void*>& addresses() const {
    return addresses_;
  }

 private:
  struct Result {
    void* address = nullptr;  // of the storage
    size_t bytes = 0;
    caffe2::TypeMeta dtype;
    std::vector<int64_t> sizes, strides;
    int64_t offset = 0;
  };
  void freeze(const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments);
  bool computes_on_cpu(const OperatorInfo& f, c10::ArrayRef<c10::IValue> arguments) const;
  void add_results(c10::ArrayRef<c10::IValue> arguments, c10::ArrayRef<c10::IValue> results);
  void call(torch::jit::Stack& stack) const;
  // Copy a result to its place; return false if it is laid out otherwise.
  bool place(const at::Tensor& result, const Result& expected) const;

  std::string name_;
  std::optional<c10::OperatorHandle> op_;
  std::function<void()> work_;
  c10::DispatchKeySet keys_;
  c10::DeviceIndex index_ = 0;
  bool on_cpu_ = false;  // calls the CPU kernel directly, with prepared aliases
  bool computes_ = true;
  const char* copy_name_ = nullptr;
  int64_t copied_bytes_ = 0;
  bool has_cpu_scalars_ = false;  // some arguments are CPU scalars
  torch::jit::Stack arguments_;
  std::vector<Result> results_;  // in the order of the kernel's results, lists flattened
  std::vector<const void*> addresses_;
  CapturedAllocations allocations_;
};

}  // namespace hostdevice
