// Random numbers as a CUDA GPU draws them: the same seed gives the same numbers. Compiled for CUDA only.
#pragma once

#include "operators/registration.h"

namespace hostdevice {

// Kernels in PyTorch's tables, which its own functions call.
void install_draws();
void install_samples();
// Operators with kernels of our own.
void register_samples(Registrar& registrar);
void register_counts(Registrar& registrar);
void register_dropout(Registrar& registrar);

}  // namespace hostdevice
