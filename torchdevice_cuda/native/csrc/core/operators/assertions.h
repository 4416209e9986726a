// Device-side assertions: CUDA kernels assert on elements for which CPU kernels raise.
//
// A GPU reads elements after the call has returned: the call returns results of the right shape, and the next
// synchronization reports that the context is lost (runtime/failure.h).
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

struct OperatorInfo;

// Whether CUDA's kernel of this operator, named as in OperatorInfo, has a device-side assertion.
bool may_assert(const std::string& name);

// Handle an error of the CPU kernel. If CUDA's kernel would assert, fail the device's context, put the results on the
// stack from `base` on and return true. Otherwise change nothing and return false. Without arguments there are no
// results, so throw at once.
bool assert_on_device(
    const c10::OperatorHandle& op, const OperatorInfo& f, c10::DispatchKey target,
    const std::vector<c10::IValue>& arguments, c10::DeviceIndex index, const c10::Error& error,
    torch::jit::Stack* stack, size_t base);

// Fail an assertion that one of this library's kernels finds itself.
void assert_element(c10::DeviceIndex index, const char* location, const char* condition, const std::string& cause);

}  // namespace hostdevice
