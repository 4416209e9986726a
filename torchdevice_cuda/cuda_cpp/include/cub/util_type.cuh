// Types of CUB that its functions share.
#pragma once

#include <cstddef>

#include "cuda_runtime.h"

namespace cub {

struct NullType {};

template <class K, class V>
struct KeyValuePair {
  typedef K Key;
  typedef V Value;
  K key;
  V value;
};

// Two buffers, of which one has what counts.
template <class T>
struct DoubleBuffer {
  T* d_buffers[2] = {nullptr, nullptr};
  int selector = 0;
  DoubleBuffer() = default;
  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() {
    return d_buffers[selector];
  }
  T* Alternate() {
    return d_buffers[selector ^ 1];
  }
};

}  // namespace cub

#pragma GCC visibility push(hidden)
namespace host_cuda {

// A thing of a block's shared memory, which has no constructors.
template <class T, size_t kCount>
struct Room {
  alignas(T) unsigned char bytes[sizeof(T) * kCount];
  T* data() {
    return reinterpret_cast<T*>(bytes);
  }
};
// One that is the block's, for those that are not given any.
template <class Storage>
Storage& own_storage() {
  struct Held {
    Storage storage;
  };
  return shared_object<Held>().storage;
}
inline unsigned block_rank() {
  return worker->rank;
}

}  // namespace host_cuda
#pragma GCC visibility pop
