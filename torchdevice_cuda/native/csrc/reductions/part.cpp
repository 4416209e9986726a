// Products and variances.
#include "bindings/part.h"
#include "operators/registration.h"

namespace hostdevice {

void register_products_and_variances(Registrar& registrar);

namespace {

void begin(PyObject*) {
  Registrar registrar(kDense);
  register_products_and_variances(registrar);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(reductions, hostdevice::begin)
