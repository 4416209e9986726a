// Scans.
#include "bindings/part.h"
#include "operators/registration.h"

namespace hostdevice {

void register_scans(Registrar& registrar);

namespace {

void begin(PyObject*) {
  Registrar registrar(kDense);
  register_scans(registrar);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(scans, hostdevice::begin)
