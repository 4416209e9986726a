#include "operators/composites.h"

#include "operators/install.h"
#include "runtime/device.h"

namespace hostdevice {

void register_composites() {
  Registrar registrar(kDense);
  register_storages(registrar);
  if constexpr (kIsCuda) {
    register_attention_choice(registrar);
    register_fused_attention(registrar);
    register_fused_recurrent_cells(registrar);
    register_fused_lstm(registrar);
    register_synchronized_batch_norm(registrar);
    register_small(registrar);
    register_linear_algebra(registrar);
    register_ties(registrar);
    register_sparse_sums();
    register_nested();
    register_products(registrar);
    register_scaled_products(registrar);
    register_cudnn(registrar);
    register_quantized(registrar);
    register_embedding_bags(registrar);
    register_random(registrar);
    register_absent_libraries(registrar);
  } else {
    register_attention(registrar);
    register_apple_composites(registrar);
  }
}

}  // namespace hostdevice
