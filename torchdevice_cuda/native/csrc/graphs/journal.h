// What a capture may not change: kept before it is written, put back when the capture ends.
//
// On a GPU nothing runs while a graph is captured. Here the kernels do run, since what they return has to have a shape
// and memory, and some look at elements to say which. So whatever they write that is not the capture's own is kept.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <vector>

namespace hostdevice {

class Journal {
 public:
  // Memory that was handed out during the capture: nobody knows what is in it before a replay.
  void add_own(char* begin, size_t bytes);
  // The tensor's elements are going to be written.
  void keep(const at::Tensor& tensor);
  // The same of memory that stays where it is until the capture ends.
  void keep(char* begin, char* end);
  // Everything is as it was; the capture's own memory is empty.
  void put_back();

 private:
  struct Kept {
    char* at;
    std::unique_ptr<char[]> bytes;
    size_t size;
  };

  std::map<char*, char*> own_, known_;  // begin to end; parts do not overlap
  std::vector<Kept> kept_;
  std::vector<c10::Storage> holding_;  // so that what was kept can be put back
};

}  // namespace hostdevice
