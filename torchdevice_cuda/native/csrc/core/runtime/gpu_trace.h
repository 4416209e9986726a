// Reports events on the device to PyTorch's GPU trace: torch.cuda's sanitizer and callbacks that programs register with
// torch.cuda._gpu_trace. Callbacks run Python: report nothing while a lock is held.
#pragma once

#include <c10/core/impl/GPUTrace.h>

#include "runtime/device.h"

namespace hostdevice {

// Costs one load if there are no callbacks.
inline const c10::impl::PyInterpreter* get_gpu_trace() {
  return kIsCuda ? c10::impl::GPUTrace::get_trace() : nullptr;
}

inline uintptr_t to_address(const void* p) {
  return reinterpret_cast<uintptr_t>(p);
}

// report(&c10::impl::PyInterpreterVTable::trace_gpu_memory_allocation, to_address(p))
template <class Method, class... Values>
void report(Method method, Values... values) {
  if (const auto* to = get_gpu_trace(); C10_UNLIKELY(to != nullptr)) ((*to).operator->()->*method)(kType, values...);
}

using TraceVTable = c10::impl::PyInterpreterVTable;

}  // namespace hostdevice
