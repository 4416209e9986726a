#include "operators/composites.h"

#include "operators/install.h"
#include "runtime/device.h"

namespace hostdevice {

void register_composites() {
  Registrar registrar(kDense);
  register_storages(registrar);
  if constexpr (kIsCuda) {
    register_small(registrar);
    register_convolutions(registrar);
    register_random(registrar);
    register_reductions(registrar);
    register_absent_libraries(registrar);
    install_stubs();
  } else {
    register_attention(registrar);
    register_apple_composites(registrar);
  }
}

}  // namespace hostdevice
