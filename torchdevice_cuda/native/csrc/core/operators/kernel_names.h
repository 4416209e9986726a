// Names by which CUDA's kernels refuse a type.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <string>

namespace hostdevice {

// Raise a CPU kernel's refusal ("..._cpu" not implemented for 'Bool') again, with the name of CUDA's kernel for this
// operator, and with the original type if a wider one was tried. Return if the error is of another kind.
void refuse_as_cuda(const c10::NotImplementedError& refusal, const std::string& op, c10::ScalarType given);

}  // namespace hostdevice
