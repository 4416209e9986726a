// Recurrent networks.
#include "bindings/part.h"
#include "operators/registration.h"

namespace hostdevice {

void register_fused_recurrent_cells(Registrar& registrar);
void register_fused_lstm(Registrar& registrar);

namespace {

void begin(PyObject*) {
  Registrar registrar(kDense);
  register_fused_recurrent_cells(registrar);
  register_fused_lstm(registrar);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(recurrent, hostdevice::begin)
