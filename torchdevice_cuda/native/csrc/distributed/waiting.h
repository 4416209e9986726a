// Waits for work of a process group that end for the program's signals, too.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>

namespace hostdevice {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Wait for work of all ranks. A timeout of its own throws, and the work goes on.
void wait_in_slices(const WorkPtr& part, std::chrono::milliseconds timeout);
// Wait for what is sent or received: Gloo closes the group's connections when a timeout of its own is over.
void wait_for_arrival(const WorkPtr& part, std::chrono::milliseconds timeout);

}  // namespace hostdevice
