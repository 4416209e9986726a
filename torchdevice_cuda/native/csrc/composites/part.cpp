// Composite operators that few programs call.
#include "bindings/part.h"
#include "operators/random.h"
#include "operators/registration.h"

namespace hostdevice {

void register_linear_algebra(Registrar& registrar);
void register_products(Registrar& registrar);
void register_scaled_products(Registrar& registrar);
void register_embedding_bags(Registrar& registrar);
void register_ties(Registrar& registrar);

namespace {

void begin(PyObject*) {
  Registrar registrar(kDense);
  register_linear_algebra(registrar);
  register_products(registrar);
  register_scaled_products(registrar);
  register_embedding_bags(registrar);
  register_ties(registrar);
  register_counts(registrar);
  register_rrelu(registrar);
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(composites, hostdevice::begin)
