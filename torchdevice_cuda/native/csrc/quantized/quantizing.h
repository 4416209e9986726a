// Quantization and dequantization.
#pragma once

#include "operators/registration.h"

namespace hostdevice {

// Register at the device's key, and at that of its quantized tensors.
void register_quantizing(Registrar& registrar, Registrar& quantized);

}  // namespace hostdevice
