#include "runtime/failure.h"

#include <array>
#include <cstdio>

#include "runtime/streams.h"

namespace hostdevice {
namespace {

struct Failure {
  int code;
  std::string message;
  int64_t lost_ns;  // the runtime has noticed the failure by this time
};
// A GPU's runtime notices a failure within this time; calls right after the kernel still succeed.
constexpr int64_t kNoticedNs = 20'000'000;
// Each is set once, before the device's bit in g_failed, and never deleted.
std::array<std::atomic<const Failure*>, kMaxDevices> g_failures{};

constexpr int kAssert = 710;
constexpr const char* kAssertMessage =
    "device-side assert triggered\nSearch for `cudaErrorAssert' in "
    "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.";

std::atomic<uint64_t> g_reported{0};

uint64_t bit(c10::DeviceIndex index) {
  return uint64_t{1} << index;
}

}  // namespace

std::atomic<uint64_t> g_failed{0};

void fail_context(c10::DeviceIndex index, int code, const std::string& message) {
  const Failure* none = nullptr;
  const auto* made = new Failure{code, message, now_ns() + kNoticedNs};
  if (!g_failures.at(static_cast<size_t>(index)).compare_exchange_strong(none, made)) delete made;
  g_failed.fetch_or(bit(index));
}

void fail_assertion(
    c10::DeviceIndex index, const char* location, const std::string& condition, const std::string& cause) {
  const bool first = !is_in(g_failed, index);
  if (first) {
    std::fprintf(stderr, "%s: block: [0,0,0], thread: [0,0,0] Assertion `%s` failed.\n", location, condition.c_str());
    if (!cause.empty()) std::fprintf(stderr, "torchdevice_cuda: what the kernel found: %s\n", cause.c_str());
    std::fflush(stderr);
  }
  fail_context(index, kAssert, kAssertMessage);
  if (is_launch_blocking()) throw_failure(index);
}

int failure_code(c10::DeviceIndex index) {
  const auto* failure = g_failures.at(static_cast<size_t>(index)).load(std::memory_order_acquire);
  return failure ? failure->code : 0;
}

void throw_failure(c10::DeviceIndex index) {
  const auto* failure = g_failures.at(static_cast<size_t>(index)).load(std::memory_order_acquire);
  g_reported.fetch_or(bit(index));
  throw_cuda_error(failure->code, failure->message);
}

bool is_lost(c10::DeviceIndex index) {
  if (!is_in(g_failed, index)) return false;
  const auto* failure = g_failures.at(static_cast<size_t>(index)).load(std::memory_order_acquire);
  return is_in(g_reported, index) || now_ns() > failure->lost_ns;
}

}  // namespace hostdevice
