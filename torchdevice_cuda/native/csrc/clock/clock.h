// The clock of a GPU that the program does not have: streams advance by predicted times, and the host's clock leaves
// out the time that computing took here.
#pragma once

#include <ATen/core/ivalue.h>

#include <string>

namespace hostdevice {

// A prediction: how long a call computes, and how many kernels it launches.
struct Prediction {
  int64_t ns = 0;
  int launches = 0;
};
// Predicts a call; may run Python.
using Predict = Prediction (*)(const std::string& name, c10::ArrayRef<c10::IValue> arguments);

void start_clock(Predict predict, int64_t launch_ns, int64_t gap_ns);
void stop_clock();

}  // namespace hostdevice
