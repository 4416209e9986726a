// Memory that a capture may not change: saved before a write, restored when the capture ends.
//
// On a GPU nothing runs while a graph is captured. Here the kernels run, since their results need a shape and memory,
// and some shapes depend on elements. So memory that they write is saved, unless the capture allocated it.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

namespace hostdevice {

class Journal {
 public:
  // Add memory of the capture's pool that is in use when the capture begins. The capture may free it and allocate it
  // again, as inductor's graphs do with their inputs, but the first replay reads it: its contents are saved.
  void add_used(char* begin, size_t bytes);
  // Add memory that was allocated during the capture: its contents are undefined before a replay.
  void add_own(char* begin, size_t bytes);
  // Save the tensor's elements, before they are written.
  void save(const at::Tensor& tensor);
  // Save memory that stays valid until the capture ends.
  void save(char* begin, char* end);
  // Restore all saved memory and fill the capture's own memory with zeros.
  void restore();

 private:
  struct SavedMemory {
    char* at;
    std::unique_ptr<char[]> bytes;
    size_t size;
  };

  std::map<char*, char*> own_, known_, used_;  // begin to end; parts do not overlap
  std::vector<SavedMemory> saved_;
  std::vector<c10::Storage> storages_;  // keeps saved memory alive
};

}  // namespace hostdevice
