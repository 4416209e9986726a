// Loads and stores: how the GPU would cache them changes nothing here.
#pragma once

#include "cub/util_type.cuh"

namespace cub {

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier, class It>
auto ThreadLoad(It it) {
  return *it;
}
template <CacheStoreModifier, class It, class T>
void ThreadStore(It it, T value) {
  *it = value;
}

}  // namespace cub
