// What groups of threads do together: barriers, reductions, scans, copies.
#pragma once

#include "host_cuda/groups.h"

namespace cooperative_groups {

inline void sync(const thread_block&, HOST_CUDA_HERE) {
  ::__syncthreads(file, line);
}
template <class Group>
void sync(const Group& group, HOST_CUDA_HERE) {
  group.sync(file, line);
}

#define HOST_CUDA_GROUP_OPERATOR(name, expression) \
  template <class T = void>                        \
  struct name {                                    \
    T operator()(T a, T b) const {                 \
      return expression;                           \
    }                                              \
  };                                               \
  template <>                                      \
  struct name<void> {                              \
    template <class T>                             \
    T operator()(T a, T b) const {                 \
      return expression;                           \
    }                                              \
  };
HOST_CUDA_GROUP_OPERATOR(plus, a + b)
HOST_CUDA_GROUP_OPERATOR(less, b < a ? b : a)
HOST_CUDA_GROUP_OPERATOR(greater, a < b ? b : a)
HOST_CUDA_GROUP_OPERATOR(bit_and, a& b)
HOST_CUDA_GROUP_OPERATOR(bit_or, a | b)
HOST_CUDA_GROUP_OPERATOR(bit_xor, a ^ b)
#undef HOST_CUDA_GROUP_OPERATOR

template <class Group, class T, class Fold>
T reduce(const Group& group, T value, Fold fold, HOST_CUDA_HERE) {
  if constexpr (sizeof(T) <= 8) {
    return host_cuda::folded(group.host_mask(), value, "reduce", {file, line}, fold);
  } else {
    T total = group.shfl(value, 0, file, line);
    for (unsigned i = 1; i < group.size(); ++i) total = fold(total, group.shfl(value, i, file, line));
    return total;
  }
}
template <class Group, class T, class Fold>
T inclusive_scan(const Group& group, T value, Fold fold, HOST_CUDA_HERE) {
  T total = value;
  for (unsigned i = group.size() - 1; i-- > 0;) {
    const T other = group.shfl(value, i, file, line);
    if (i < group.thread_rank()) total = fold(other, total);
  }
  return total;
}
template <class Group, class T>
T inclusive_scan(const Group& group, T value, HOST_CUDA_HERE) {
  return inclusive_scan(group, value, plus<T>(), file, line);
}
// Without a first value, the first thread gets T{}.
template <class Group, class T, class Fold>
T exclusive_scan(const Group& group, T value, Fold fold, HOST_CUDA_HERE) {
  const T before = group.shfl_up(inclusive_scan(group, value, fold, file, line), 1, file, line);
  return group.thread_rank() ? before : T{};
}
template <class Group, class T>
T exclusive_scan(const Group& group, T value, HOST_CUDA_HERE) {
  return exclusive_scan(group, value, plus<T>(), file, line);
}
// By one thread of a group.
template <class Group, class Call, class... A>
void invoke_one(const Group& group, Call&& call, A&&... arguments) {
  if (group.thread_rank() == 0) call(std::forward<A>(arguments)...);
}

// Copies are complete when they return; whoever waits for them meets the group.
template <class Group, class To, class From, class Bytes>
void memcpy_async(const Group& group, To* to, const From* from, const Bytes& bytes) {
  if (group.thread_rank() == 0) std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(bytes));
}
template <class Group, class T, class Room, class Count>
void memcpy_async(const Group& group, T* to, const Room& room, const T* from, const Count& count) {
  const size_t n = static_cast<size_t>(room) < static_cast<size_t>(count) ? room : count;
  if (group.thread_rank() == 0) std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
}
template <class Group>
void wait(const Group& group, HOST_CUDA_HERE) {
  group.sync(file, line);
}
template <unsigned Stages, class Group>
void wait_prior(const Group& group, HOST_CUDA_HERE) {
  group.sync(file, line);
}

}  // namespace cooperative_groups
