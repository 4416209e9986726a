// Types of CUB that its functions share.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>

#include "cuda_runtime.h"

namespace cub {

struct NullType {
  template <class T>
  NullType& operator=(const T&) {
    return *this;
  }
  bool operator==(const NullType&) const {
    return true;
  }
  bool operator!=(const NullType&) const {
    return false;
  }
};
template <int N>
struct Int2Type {
  enum { VALUE = N };
};
template <bool kCondition, class Then, class Else>
struct If {
  typedef std::conditional_t<kCondition, Then, Else> Type;
};
template <class A, class B>
struct Equals {
  enum { VALUE = std::is_same_v<A, B>, NEGATE = !std::is_same_v<A, B> };
};
// The least power of two that is not below N is 2 to the VALUE.
template <int N, int kCurrent = N, int kCount = 0>
struct Log2 {
  enum { VALUE = Log2<N, (kCurrent >> 1), kCount + 1>::VALUE };
};
template <int N, int kCount>
struct Log2<N, 0, kCount> {
  enum { VALUE = (1 << (kCount - 1) < N) ? kCount : kCount - 1 };
};
template <int N>
struct PowerOfTwo {
  enum { VALUE = (N & (N - 1)) == 0 };
};
// Memory for a T without its constructor.
template <class T>
struct Uninitialized {
  alignas(T) unsigned char storage[sizeof(T)];
  T& Alias() {
    return reinterpret_cast<T&>(*this);
  }
};
template <class T>
struct FpLimits {
  static T Max() {
    return std::numeric_limits<T>::max();
  }
  static T Lowest() {
    return std::numeric_limits<T>::lowest();
  }
};
template <class T>
struct Traits {
  typedef std::conditional_t<
      sizeof(T) == 1, unsigned char,
      std::conditional_t<
          sizeof(T) == 2, unsigned short, std::conditional_t<sizeof(T) == 4, unsigned int, unsigned long long>>>
      UnsignedBits;
  static T Max() {
    return std::numeric_limits<T>::max();
  }
  static T Lowest() {
    return std::numeric_limits<T>::lowest();
  }
};
template <class T>
struct NumericTraits : Traits<T> {};

namespace detail {
template <class T, class U>
void uninitialized_copy(T* to, U&& value) {
  new (static_cast<void*>(to)) T(static_cast<U&&>(value));
}
template <class T, class U>
void uninitialized_copy_single(T* to, U&& value) {
  uninitialized_copy(to, static_cast<U&&>(value));
}
}  // namespace detail

template <class K, class V>
struct KeyValuePair {
  typedef K Key;
  typedef V Value;
  K key;
  V value;
  KeyValuePair() = default;
  KeyValuePair(const K& k, const V& v) : key(k), value(v) {}
  bool operator!=(const KeyValuePair& other) const {
    return value != other.value || key != other.key;
  }
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
// Whether a thread of a loop has only to leave its value, for a second call (loops.h).
inline bool is_giving() {
  return worker->exchange && worker->gives;
}
inline unsigned block_rank() {
  return worker->rank;
}

}  // namespace host_cuda
#pragma GCC visibility pop
