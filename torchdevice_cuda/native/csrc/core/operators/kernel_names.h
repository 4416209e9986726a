// What CUDA's kernels call themselves when they refuse a type.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <string>

namespace hostdevice {

// A refusal by a kernel of the CPU ("..._cpu" not implemented for 'Bool'), raised again with the name of CUDA's kernel
// for this operator, and with the type that was given, if a wider one was tried. Returns where the refusal is another.
void refuse_as_cuda(const c10::NotImplementedError& refusal, const std::string& op, c10::ScalarType given);

}  // namespace hostdevice
