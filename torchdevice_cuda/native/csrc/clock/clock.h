// The clock of a GPU that the program does not have: streams advance by predicted times, and the host's clock leaves
// out the time that computing took here.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>
#include <vector>

namespace hostdevice {

// A prediction: how long a call computes, and how many kernels it launches.
struct Prediction {
  int64_t ns = 0;
  int launches = 0;
  int id = -1;  // under which its calls are counted
};
// Predicts a call; may run Python.
using Predict = Prediction (*)(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

// Called for a kernel of other code, which has no prediction; may run Python.
using ReportKernel = void (*)(const char* name);

void start_clock(Predict predict, ReportKernel report, int64_t launch_ns, int64_t gap_ns);
void stop_clock();
// Add work of this length to the device's current stream; the host spent this time on simulating it.
void add_work(const std::string& name, c10::DeviceIndex device, int64_t ns, int64_t spent_ns);

// What was counted since the start of the clock: calls by id, and the time that computing them here took.
struct ClockCounts {
  std::vector<uint64_t> calls;
  int64_t computing_ns;
};
ClockCounts read_clock_counts();

}  // namespace hostdevice
