// What CUDA's kernels assert of the elements that they find, where the CPU's kernels raise.
//
// A GPU looks at elements after the call has returned: the call gives results of the right shape, and whoever waits for
// the device next is told that it is lost (runtime/failure.h).
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace c10 {
class OperatorHandle;
}

namespace hostdevice {

struct Facts;

// Whether CUDA's kernel of this operator, named as in Facts, asserts something.
bool may_assert(const std::string& name);

// The CPU's kernel has raised. If CUDA's would have asserted: the device's context has ended, and the results are on
// the stack, from `base` on. Otherwise nothing is done. Without arguments there are no results: then it is raised at
// once.
bool assert_on_device(
    const c10::OperatorHandle& op, const Facts& f, c10::DispatchKey target, const std::vector<c10::IValue>& arguments,
    c10::DeviceIndex index, const c10::Error& error, torch::jit::Stack* stack, size_t base);

// The same where a kernel of ours looks at the elements itself.
void assert_element(c10::DeviceIndex index, const char* place, const char* condition, const std::string& cause);

}  // namespace hostdevice
