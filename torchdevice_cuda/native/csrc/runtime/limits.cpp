#include "runtime/limits.h"

#include <c10/util/Exception.h>

#include <string>

#include "runtime/device.h"
#include "runtime/statistics.h"

namespace hostdevice {

std::atomic<ShortageObserver> g_shortage_observer{nullptr};

void throw_out_of_memory(const Shortage& s) {
  const auto& limits = s.limits;
  const size_t free = limits.free(s.reserved);
  if constexpr (kIsCuda) {
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", format_size(s.wanted), ". GPU ",
        static_cast<int>(s.device), " has a total capacity of ", format_size(limits.total), " of which ",
        format_size(free), " is free. Including non-PyTorch memory, this process has ",
        format_size(limits.total - free), " memory in use. ",
        limits.is_reduced() ? format_size(limits.allowed()) + " allowed; " : std::string(), "Of the allocated memory ",
        format_size(s.allocated), " is allocated by PyTorch, and ", format_size(s.reserved - s.allocated),
        " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
        "Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)");
  } else {
    TORCH_CHECK(
        false, "MPS backend out of memory (MPS allocated: ", format_size(s.allocated),
        ", other allocations: ", format_size(s.reserved - s.allocated),
        ", max allowed: ", format_size(limits.allowed()), "). Tried to allocate ", format_size(s.wanted),
        " on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations "
        "(may cause system failure).");
  }
}

}  // namespace hostdevice
