// Quantized tensors.
#include "bindings/part.h"
#include "operators/registration.h"

namespace hostdevice {

void register_quantized(Registrar& registrar);

namespace {

void begin(PyObject*) {
  Registrar registrar(kDense);
  register_quantized(registrar);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(quantized, hostdevice::begin)
