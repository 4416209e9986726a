// Sparse and nested tensors.
#include "bindings/part.h"
#include "operators/registration.h"

namespace hostdevice {

void register_sparse_sums();
void register_nested();

namespace {

void begin(PyObject*) {
  register_sparse_sums();
  register_nested();
}

}  // namespace
}  // namespace hostdevice

HOSTDEVICE_PART(sparse, hostdevice::begin)
