// What threads of a warp ask and exchange, as CUB names it.
#pragma once

#include "cub/config.cuh"
#include "cub/util_type.cuh"
#include "host_cuda/groups.h"

namespace cub {

inline unsigned LaneId() {
  return host_cuda::lane();
}
inline unsigned WarpId() {
  return host_cuda::worker->rank / 32;
}
inline unsigned LaneMaskLt() {
  return (1u << host_cuda::lane()) - 1;
}
inline unsigned LaneMaskLe() {
  return LaneMaskLt() | 1u << host_cuda::lane();
}
inline unsigned LaneMaskGt() {
  return ~LaneMaskLe();
}
inline unsigned LaneMaskGe() {
  return ~LaneMaskLt();
}
inline int RowMajorTid(int x, int y, int) {
  const uint3 t = host_cuda::worker->thread;
  return static_cast<int>((t.z * static_cast<unsigned>(y) + t.y) * static_cast<unsigned>(x) + t.x);
}
template <int kLanes, int = 0>
unsigned WarpMask([[maybe_unused]] unsigned warp) {
  if constexpr (kLanes == 32 || (kLanes & (kLanes - 1)) != 0)
    return kLanes == 32 ? ~0u : (1u << kLanes % 32) - 1;
  else
    return ((1u << kLanes) - 1) << (warp % (32 / kLanes) * kLanes);
}
inline unsigned SHR_ADD(unsigned x, unsigned shift, unsigned addend) {
  return (x >> shift) + addend;
}
inline unsigned SHL_ADD(unsigned x, unsigned shift, unsigned addend) {
  return (x << shift) + addend;
}
template <class T>
unsigned BFE(T source, unsigned start, unsigned bits) {
  return static_cast<unsigned>(static_cast<unsigned long long>(source) >> start & ((1ull << bits) - 1));
}
inline void BFI(unsigned& to, unsigned x, unsigned y, unsigned start, unsigned bits) {
  const unsigned mask = static_cast<unsigned>(((1ull << bits) - 1) << start);
  to = (x & ~mask) | (y << start & mask);
}
inline unsigned IADD3(unsigned x, unsigned y, unsigned z) {
  return x + y + z;
}
inline int PRMT(unsigned a, unsigned b, unsigned index) {
  return static_cast<int>(__byte_perm(a, b, index));
}
inline void CTA_SYNC(HOST_CUDA_HERE) {
  __syncthreads(file, line);
}
inline int CTA_SYNC_AND(int p, HOST_CUDA_HERE) {
  return __syncthreads_and(p, file, line);
}
inline int CTA_SYNC_OR(int p, HOST_CUDA_HERE) {
  return __syncthreads_or(p, file, line);
}
inline void WARP_SYNC(unsigned mask, HOST_CUDA_HERE) {
  __syncwarp(mask, file, line);
}
inline int WARP_ANY(int p, unsigned mask, HOST_CUDA_HERE) {
  return __any_sync(mask, p, file, line);
}
inline int WARP_ALL(int p, unsigned mask, HOST_CUDA_HERE) {
  return __all_sync(mask, p, file, line);
}
inline unsigned WARP_BALLOT(int p, unsigned mask, HOST_CUDA_HERE) {
  return __ballot_sync(mask, p, file, line);
}
inline void ThreadTrap(HOST_CUDA_HERE) {
  __trap(file, line);
}

// Values of any size. A lane whose source is outside of its group keeps its own.
template <int kLanes, class T>
T ShuffleUp(T input, int offset, int first, unsigned mask, HOST_CUDA_HERE) {
  const int lane = static_cast<int>(host_cuda::lane()), base = lane / kLanes * kLanes;
  const int source = lane - offset;
  return host_cuda::shuffled_any(
      mask, input, source < base + first % kLanes ? lane : source, "ShuffleUp", {file, line});
}
template <int kLanes, class T>
T ShuffleDown(T input, int offset, int last, unsigned mask, HOST_CUDA_HERE) {
  const int lane = static_cast<int>(host_cuda::lane()), base = lane / kLanes * kLanes;
  const int source = lane + offset;
  return host_cuda::shuffled_any(
      mask, input, source > base + last % kLanes ? lane : source, "ShuffleDown", {file, line});
}
template <int kLanes, class T>
T ShuffleIndex(T input, int source, unsigned mask, HOST_CUDA_HERE) {
  const int base = static_cast<int>(host_cuda::lane()) / kLanes * kLanes;
  return host_cuda::shuffled_any(mask, input, base + source % kLanes, "ShuffleIndex", {file, line});
}

}  // namespace cub
