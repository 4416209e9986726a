// The clock of a GPU that the program does not have: streams advance by predicted times, and the host's clock leaves
// out the time that computing took here.
#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <array>
#include <string>
#include <vector>

#include "clock/workspaces.h"

namespace hostdevice {

struct StreamState;

// A prediction: how long a call computes, and how many kernels it launches.
struct Prediction {
  int64_t ns = 0;
  int launches = 0;
  int id = -1;         // under which its calls are counted
  double crowded = 1;  // how many times as long it takes beside a collective
  Blas blas = Blas::kNone;
  int64_t launch_ns = 0;  // the host's
};
// Predicts a call; may run Python.
using Predict = Prediction (*)(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

// Called for a kernel of other code that was not counted: it has no prediction, or one by the sizes of its tensors. May
// run Python.
using ReportKernel = void (*)(const char* name, bool is_estimated);

void start_clock(Predict predict, ReportKernel report, int64_t launch_ns, int64_t gap_ns);
void stop_clock();
// Add work of this length to the device's current stream; the host spent this time on simulating it. If it takes
// multiprocessors, as collectives do, kernels of other streams take longer meanwhile.
void add_work(
    const std::string& name, c10::DeviceIndex device, int64_t ns, int64_t spent_ns, bool takes_multiprocessors);

// What a kernel of other code does: the members of KernelCounts (kernel_times.h), and between those the index of its
// products' type.
using KernelArguments = std::array<double, 8>;
// Predict such a kernel, including the time between kernels; count the call.
int64_t predict_kernel(const KernelArguments& arguments);
bool is_clock_on();
void report_kernel(const char* name, bool is_estimated);
// Add a kernel to a stream, or to the graph that captures it; the host spent this time on running it.
void add_kernel(StreamState& stream, int64_t ns, int64_t spent_ns);
// Add a kernel of the graph that this thread launched last.
void add_replayed_kernel(int64_t ns);

// What was counted since the start of the clock: calls by id, and the time that computing them here took.
struct ClockCounts {
  std::vector<uint64_t> calls;
  int64_t computing_ns;
};
ClockCounts read_clock_counts();

}  // namespace hostdevice
