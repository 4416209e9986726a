// Numbers that CUDA's tools show.
#pragma once

#include <string_view>

namespace hostdevice {

// CUPTI's stream IDs: a context's own streams begin with 7, those that a program creates come later.
constexpr int kDefaultStream = 7;
constexpr int kFirstStream = 13;

// Return CUPTI's ID of a runtime function (cupti_runtime_cbid.h); 0 if it has none.
constexpr int callback_id(std::string_view function) {
  constexpr struct {
    std::string_view function;
    int id;
  } kIds[] = {
      {"cudaLaunchKernel", 211},      {"cudaMemcpyAsync", 41},      {"cudaStreamSynchronize", 131},
      {"cudaDeviceSynchronize", 165}, {"cudaEventRecord", 135},     {"cudaEventQuery", 138},
      {"cudaEventSynchronize", 137},  {"cudaStreamWaitEvent", 147}, {"cudaStreamQuery", 132},
      {"cudaGraphLaunch", 311},       {"cudaMalloc", 20},           {"cudaFree", 22},
      {"cudaHostAlloc", 27},          {"cudaFreeHost", 26},
  };
  for (const auto& row : kIds)
    if (row.function == function) return row.id;
  return 0;
}

// Return CUPTI's name of a synchronization, by the function that waits; null for others.
constexpr const char* kind_of_wait(std::string_view function) {
  if (function == "cudaStreamSynchronize") return "Stream Sync";
  if (function == "cudaDeviceSynchronize") return "Context Sync";
  if (function == "cudaEventSynchronize") return "Event Sync";
  if (function == "cudaStreamWaitEvent") return "Stream Wait Event";
  return nullptr;
}

}  // namespace hostdevice
