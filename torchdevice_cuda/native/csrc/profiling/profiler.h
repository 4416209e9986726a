// The device's part of torch.profiler.
#pragma once

#include <string>

namespace hostdevice {

// Have PyTorch's profilers ask the device, too: Kineto, and those that time operators with events.
void install_kineto();
void install_event_profiling();

// What traces say of the devices, in JSON: an object for each, with commas between.
void describe_devices(std::string properties);

}  // namespace hostdevice
