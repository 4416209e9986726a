// cuBLAS's workspaces: PyTorch allocates one for each thread and stream that multiplies on a GPU, and keeps it. The
// host's BLAS needs none, so this memory is only counted.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>

namespace hostdevice {

enum class Blas : uint8_t { kNone, kBlas, kBlasLt };

// Set the bytes of workspaces that are allocated from now on; those of cuBLASLt come on top.
void set_workspaces(size_t blas_bytes, size_t blas_lt_bytes);
// Allocate what a call on the device's current stream needs, unless the calling thread has it.
void take_workspaces(Blas needed, c10::DeviceIndex device);
// Return how many workspaces of cuBLAS are allocated.
size_t count_workspaces();
void clear_workspaces();

}  // namespace hostdevice
