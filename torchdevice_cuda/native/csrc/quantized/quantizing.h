// Numbers as integers and back.
#pragma once

#include "operators/registration.h"

namespace hostdevice {

// At the device's key, and at that of its quantised tensors.
void register_quantizing(Registrar& registrar, Registrar& quantized);

}  // namespace hostdevice
