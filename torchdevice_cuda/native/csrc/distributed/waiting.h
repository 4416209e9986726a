// Waits for work of a process group that signals can interrupt.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>

namespace hostdevice {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Wait for work of all ranks. If the timeout expires, throw; the work continues.
void wait_in_slices(const WorkPtr& part, std::chrono::milliseconds timeout);
// Wait for a send or receive: Gloo closes the group's connections when a timeout of its own expires.
void wait_for_arrival(const WorkPtr& part, std::chrono::milliseconds timeout);

}  // namespace hostdevice
