// Kernels and collectives that run at the same time: collectives take multiprocessors, so that kernels take longer.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

namespace hostdevice {

struct StreamState;

// Note a collective of a stream, from one moment to another; what another stream has queued meanwhile takes longer.
void add_collective(StreamState& stream, int64_t begin_ns, int64_t end_ns);
// Return when a kernel is done that begins then and takes this time alone, and so many times as long beside a
// collective.
int64_t find_end(StreamState& stream, int64_t begin_ns, int64_t ns, double crowded);
// Forget every collective.
void forget_collectives();

}  // namespace hostdevice
