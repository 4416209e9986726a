// Where the threads of a block leave their values, so that the threads of one warp can each take some that follow each
// other.
#pragma once

#include "cub/config.cuh"
#include "cub/util_type.cuh"

namespace cub {

template <class T, int kBlockThreads, int = 0>
struct BlockRakingLayout {
  static constexpr int SHARED_ELEMENTS = kBlockThreads;
  static constexpr int MAX_RAKING_THREADS = kBlockThreads < 32 ? kBlockThreads : 32;
  static constexpr int SEGMENT_LENGTH = (SHARED_ELEMENTS + MAX_RAKING_THREADS - 1) / MAX_RAKING_THREADS;
  static constexpr int RAKING_THREADS = (SHARED_ELEMENTS + SEGMENT_LENGTH - 1) / SEGMENT_LENGTH;
  static constexpr int USE_SEGMENT_PADDING = 0;
  static constexpr int GRID_ELEMENTS = RAKING_THREADS * SEGMENT_LENGTH;
  static constexpr int UNGUARDED = SHARED_ELEMENTS % RAKING_THREADS == 0;

  struct alignas(16) _TempStorage {
    alignas(T) unsigned char bytes[sizeof(T) * GRID_ELEMENTS];
  };
  struct TempStorage : Uninitialized<_TempStorage> {};

  static T* PlacementPtr(TempStorage& storage, unsigned thread) {
    return reinterpret_cast<T*>(storage.Alias().bytes) + thread;
  }
  static T* RakingPtr(TempStorage& storage, unsigned thread) {
    return reinterpret_cast<T*>(storage.Alias().bytes) + thread * SEGMENT_LENGTH;
  }
};

}  // namespace cub
