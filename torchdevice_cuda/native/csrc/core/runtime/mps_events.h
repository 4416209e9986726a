// Events like those of a Mac: they signal late, and some calls that would hang the process there raise an error here.
#pragma once

#include <cstdint>

namespace hostdevice {

uint32_t acquire_mps_event(bool timing);
void release_mps_event(uint32_t id);
void record_mps_event(uint32_t id);
void wait_for_mps_event(uint32_t id);
void synchronize_mps_event(uint32_t id);
bool query_mps_event(uint32_t id);
double elapsed_between_mps_events(uint32_t start, uint32_t end);

}  // namespace hostdevice
