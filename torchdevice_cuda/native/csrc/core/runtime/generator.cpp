#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/captured_allocations.h"
#include "runtime/captures.h"
#include "runtime/failure.h"
#include "runtime/multiprocessors.h"

namespace hostdevice {
namespace {

constexpr int64_t kCudaStateBytes = 16;
// The state of an Apple GPU's generator: seven 32-bit words of the engine, which every draw replaces, then the seed and
// the offset.
constexpr int64_t kMpsStateBytes = 7 * 4 + 8 + 8;
// CUDA counts offsets in 32-bit words; an Apple GPU counts in Philox outputs of four words each.
constexpr uint64_t kOffsetUnit = kIsCuda ? 1 : 4;

constexpr int64_t kThreadsOfBlock = 256;

Multiprocessors& claimed_multiprocessors() {
  static Multiprocessors claimed{132, 2048};
  return claimed;
}

// Return how far one draw advances the offset. The threads of a full launch draw four numbers per round, and each round
// advances the offset by 4. Small draws advance it by 4.
uint64_t offset_step(int64_t count) {
  const auto& gpu = multiprocessors();
  const int64_t threads = kThreadsOfBlock * gpu.count * (gpu.threads / kThreadsOfBlock);
  const int64_t rounds = (std::max<int64_t>(count, 1) - 1) / (threads * 4) + 1;
  return static_cast<uint64_t>(rounds) * 4;
}

// The final step of SplitMix64: it turns adjacent states into unrelated seeds.
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

}  // namespace

const Multiprocessors& multiprocessors() {
  return claimed_multiprocessors();
}
void set_multiprocessors(const Multiprocessors& claimed) {
  TORCH_CHECK(
      claimed.count > 0 && claimed.threads >= kThreadsOfBlock, "a GPU has at least one multiprocessor of ",
      kThreadsOfBlock, " threads");
  claimed_multiprocessors() = claimed;
}

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index, uint64_t seed)
    : c10::GeneratorImpl{c10::Device(kType, index), c10::DispatchKeySet(kDense)},
      state_(c10::make_intrusive<State>(seed)) {}

void GeneratorImpl::refuse_in_capture(const char* what) const {
  if (kIsCuda && has_captures())
    hostdevice::refuse_in_capture(
        resolve(device_.index()), (std::string("Cannot call CUDAGeneratorImpl::") + what).c_str());
}

void GeneratorImpl::begin_capture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_->capturing = true;
  state_->drawn = 0;
}
uint64_t GeneratorImpl::end_capture() {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_->capturing = false;
  return std::exchange(state_->drawn, 0);
}
void GeneratorImpl::skip(uint64_t by) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_->offset += by;
}
c10::intrusive_ptr<c10::intrusive_ptr_target> GeneratorImpl::reserve(uint64_t words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto here = c10::make_intrusive<State>(state_->seed);
  here->offset = state_->offset;
  state_->offset += words;
  return here;
}
void GeneratorImpl::add_graph() {
  if (state_->graphs++ > 0) return;
  state_->device_seed = allocate(sizeof(int64_t), resolve(device_.index()));
  state_->device_offset = allocate(sizeof(int64_t), resolve(device_.index()));
}
void GeneratorImpl::remove_graph() {
  if (--state_->graphs > 0) return;
  state_->device_seed.clear();
  state_->device_offset.clear();
}

Philox GeneratorImpl::advance_by(uint64_t by) {
  if (C10_UNLIKELY(t_captured.recording && t_captured.replaying)) {
    auto& tried = *t_captured.recording;
    tried.draws.push_back({state_, tried.words});
    tried.words += by;
    return {state_->seed, state_->offset};
  }
  // A graph draws from the generator states that it was captured with, whatever state the generator has now.
  if (C10_UNLIKELY(t_captured.replaying && t_captured.next_draw < t_captured.replaying->draws.size())) {
    const auto& draw = t_captured.replaying->draws[t_captured.next_draw++];
    const auto& state = static_cast<const State&>(*draw.state);
    return {state.seed, state.offset + draw.relative_offset};
  }
  if (C10_UNLIKELY(has_captures())) {
    const auto index = resolve(device_.index());
    const bool captured = capture_status(stream_state(index, current_stream(index))) != 0;
    TORCH_CHECK(!captured || state_->capturing, "Attempt to increase offset for a CUDA generator not in capture mode.");
    TORCH_CHECK(captured || !state_->capturing, "Offset increment outside graph capture encountered unexpectedly.");
    if (t_captured.recording) t_captured.recording->draws.push_back({state_, state_->drawn});
  }
  const Philox here{state_->seed, state_->offset + state_->drawn};
  (state_->capturing ? state_->drawn : state_->offset) += by;
  return here;
}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  // On a GPU this queries whether a graph is being captured, which reports a failed context.
  if (kIsCuda && device_.has_index() && device_.index() < device_count()) check_before_wait(device_.index());
  if (kIsCuda && has_captures()) {
    const auto index = resolve(device_.index());
    if (capture_status(stream_state(index, current_stream(index))) != 0) {
      TORCH_CHECK(
          state_->seed == seed,
          "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as "
          "the original seed.");
      return;
    }
  }
  state_->seed = seed;
  state_->offset = 0;
}
void GeneratorImpl::set_offset(uint64_t offset) {
  refuse_in_capture("set_offset");
  TORCH_CHECK(!kIsCuda || offset % 4 == 0, "offset must be a multiple of 4");
  state_->offset = offset * kOffsetUnit;
}
uint64_t GeneratorImpl::get_offset() const {
  refuse_in_capture("get_offset");
  return state_->offset / kOffsetUnit;
}
uint64_t GeneratorImpl::current_seed() const {
  return state_->seed;
}
uint64_t GeneratorImpl::seed() {
  refuse_in_capture("seed");
  const auto random = c10::detail::getNonDeterministicRandom();
  set_current_seed(random);
  return random;
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor t = at::detail::empty_cpu({kIsCuda ? kCudaStateBytes : kMpsStateBytes}, at::kByte);
  auto* p = static_cast<uint8_t*>(t.mutable_data_ptr());
  if constexpr (kIsCuda) {
    // During a capture the offset is relative to the start of a replay.
    std::memcpy(p, &state_->seed, 8);
    std::memcpy(p + 8, state_->capturing ? &state_->drawn : &state_->offset, 8);
  } else {
    const uint32_t words[7] = {
        1, 1, 1, 1, 1, static_cast<uint32_t>(state_->seed), static_cast<uint32_t>(state_->seed >> 32)};
    const uint64_t offset = state_->offset / kOffsetUnit;
    std::memcpy(p, words, sizeof words);
    std::memcpy(p + sizeof words, &state_->seed, 8);
    std::memcpy(p + sizeof words + 8, &offset, 8);
  }
  return t.getIntrusivePtr();
}

void GeneratorImpl::set_state(const c10::TensorImpl& s) {
  at::detail::check_rng_state(s);
  const auto n = s.numel();
  const auto* p = static_cast<const uint8_t*>(s.data());
  uint64_t seed = 0, offset = 0;
  if constexpr (kIsCuda) {
    // A state without an offset (from before CUDA stored one) means offset 0.
    TORCH_CHECK(n == kCudaStateBytes || n == 8, "RNG state is wrong size");
    std::memcpy(&seed, p, 8);
    if (n == kCudaStateBytes) std::memcpy(&offset, p + 8, 8);
  } else {
    TORCH_CHECK(n == kMpsStateBytes, "RNG state is wrong size");
    std::memcpy(&seed, p + 28, 8);
    std::memcpy(&offset, p + 36, 8);
    offset *= kOffsetUnit;
  }
  TORCH_CHECK(offset % 4 == 0, "offset must be a multiple of 4");
  if (state_->capturing) set_current_seed(seed);
  state_->seed = seed;
  (state_->capturing ? state_->drawn : state_->offset) = offset;
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  auto* g = dynamic_cast<GeneratorImpl*>(other.get());
  TORCH_CHECK(g, "Expected a CUDA Generator");
  state_ = g->state_;
}
c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  auto g = c10::make_intrusive<GeneratorImpl>(device_.index());
  g->state_ = state_;
  return g;
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  refuse_in_capture("clone_impl");
  auto* g = new GeneratorImpl(device_.index(), state_->seed);
  if (kIsCuda) g->state_->offset = state_->offset;  // a clone of an MPS generator takes only the seed
  return g;
}

Philox GeneratorImpl::advance(uint64_t words) {
  std::lock_guard<std::mutex> lock(mutex_);
  return advance_by((words + 3) / 4 * 4);
}

uint64_t GeneratorImpl::next_seed(int64_t count) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Philox here = advance_by(offset_step(count));
  return mix(mix(here.seed + 0x9E3779B97F4A7C15ull) ^ (here.offset * 0xD1342543DE82EF95ull + 1));
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* all = new std::array<at::Generator, kMaxDevices>;
  static std::array<std::once_flag, kMaxDevices> once;
  index = resolve(index);
  const auto i = static_cast<size_t>(index);
  std::call_once(
      once[i], [&] { (*all)[i] = at::make_generator<GeneratorImpl>(index, c10::detail::getNonDeterministicRandom()); });
  return (*all)[i];
}

Philox advance(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t words) {
  return at::get_generator_or_default<GeneratorImpl>(generator, default_generator(index))->advance(words);
}

uint64_t next_seed(const at::Generator& generator, c10::DeviceIndex index, int64_t count) {
  const at::Generator& g = generator.defined() ? generator : default_generator(index);
  TORCH_CHECK(
      g.device().type() == kType, "Expected a '", kType, "' device type for generator but found '", g.device().type(),
      "'");
  return static_cast<GeneratorImpl*>(g.unsafeGetGeneratorImpl())->next_seed(count);
}

at::Generator cpu_generator(const at::Generator& generator, c10::DeviceIndex index, int64_t count) {
  return at::detail::createCPUGenerator(next_seed(generator, index, count));
}

}  // namespace hostdevice
