// The device's part of torch.profiler.
#pragma once

#include <string>

namespace hostdevice {

// Register the device with PyTorch's profilers: Kineto, and those that time operators with events.
void install_kineto();
void install_event_profiling();

// Set the device properties of traces, in JSON: an object for each device, with commas between.
void describe_devices(std::string properties);

}  // namespace hostdevice
