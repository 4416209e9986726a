// The storage modes of Metal buffers: the host never accesses private ones, and shared ones only after it has waited
// for the GPU. TORCHDEVICE_EMULATE_MPS_STORAGE chooses a mode; the emulated GPU's memory is then on pages that the host
// cannot access at other times, so that a wrong access ends the process. Unset, nothing is protected.
#pragma once

#include <cstddef>

namespace hostdevice {

// Protect memory between operators of the GPU, if a mode is chosen.
void install_mps_protection();
// A segment was mapped, or will be unmapped.
void add_mps_segment(char* base, size_t size);
void remove_mps_segment(char* base);
// The host has waited for the GPU.
void note_mps_synchronized();

}  // namespace hostdevice
