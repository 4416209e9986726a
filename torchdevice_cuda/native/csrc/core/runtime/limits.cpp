#include "runtime/limits.h"

#include <c10/util/Exception.h>

#include <string>

#include "compat.h"
#include "runtime/device.h"
#include "runtime/statistics.h"

namespace hostdevice {

std::atomic<OutOfMemoryObserver> g_oom_observer{nullptr};
std::atomic<OutOfMemoryObserver> g_note_shortage{nullptr};

void throw_out_of_memory(const OutOfMemoryInfo& s) {
  const auto& limits = s.limits;
  if constexpr (kIsCuda) {
    TORCH_CHECK_WITH(
        OutOfMemoryError, !s.async, "Allocation on device ", static_cast<int>(s.device),
        " would exceed allowed memory. (out of memory)\nCurrently allocated     : ", format_size(s.allocated),
        "\nRequested               : ", format_size(s.requested),
        "\nDevice limit            : ", format_size(limits.total), "\nFree (according to CUDA): ", format_size(s.free),
        "\nPyTorch limit (set by user-supplied memory fraction)\n                        : ",
        format_size(limits.allowed()));
    TORCH_CHECK_WITH(
        OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", format_size(s.wanted), ". GPU ",
        static_cast<int>(s.device), " has a total capacity of ", format_size(limits.total), " of which ",
        format_size(s.free), " is free. Including non-PyTorch memory, this process has ",
        format_size(limits.total - limits.free(s.reserved)), " memory in use. ",
        limits.is_reduced() ? format_size(limits.allowed()) + " allowed; " : std::string(), "Of the allocated memory ",
        format_size(s.allocated + s.in_private_pools), " is allocated by PyTorch, ",
        s.in_private_pools
            ? "with " + format_size(s.in_private_pools) + " allocated in private pools (e.g., CUDA Graphs), "
            : std::string(),
        "and ", format_size(s.reserved - s.allocated - s.in_private_pools),
        " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting ",
        kMemoryAdvice);
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
