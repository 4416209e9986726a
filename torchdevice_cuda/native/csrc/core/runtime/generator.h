// Random numbers. A CUDA generator is a seed and an offset into Philox. Device kernels draw from these directly; for
// CPU kernels the generator seeds a CPU generator.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <optional>

#include "runtime/device.h"
#include "runtime/philox.h"

namespace hostdevice {

struct GeneratorImpl final : c10::GeneratorImpl {
  explicit GeneratorImpl(c10::DeviceIndex index, uint64_t seed = c10::default_rng_seed_val);

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type() {
    return kType;
  }

  // Return the position of a launch whose threads each read at most `words` words; the next launch reads after it.
  Philox advance(uint64_t words);

  // Draws during a capture do not advance the offset: every replay advances it by all of them.
  void begin_capture();
  // Return by how much a replay advances the offset.
  uint64_t end_capture();
  void skip(uint64_t by);
  // Advance the offset for draws that happen later, and return the state from which they are drawn (`Draw`).
  c10::intrusive_ptr<c10::intrusive_ptr_target> reserve(uint64_t words);
  // Graphs store the seed and the offset of their generators in device memory, which is allocated while there are any.
  void add_graph();
  void remove_graph();

  bool shares_state(const GeneratorImpl& other) const {
    return state_ == other.state_;
  }

  // Return a seed for the CPU generator that draws the next `count` numbers; advance the offset like CUDA.
  uint64_t next_seed(int64_t count);

 private:
  GeneratorImpl* clone_impl() const override;
  void refuse_in_capture(const char* what) const;
  // Return the position of the next draw and advance it. The lock must be held.
  Philox advance_by(uint64_t by);
  struct State : c10::intrusive_ptr_target {
    uint64_t seed;
    uint64_t offset = 0;
    bool capturing = false;
    uint64_t drawn = 0;  // during the capture
    int graphs = 0;
    c10::DataPtr device_seed, device_offset;
    explicit State(uint64_t s) : seed(s) {}
  };
  c10::intrusive_ptr<State> state_;
};

const at::Generator& default_generator(c10::DeviceIndex index);
// Advance `generator`, or the device's default generator if there is none.
Philox advance(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t words);
// Return the CPU generator from which a CPU kernel draws `count` numbers for `generator` (undefined: the default one).
at::Generator cpu_generator(const at::Generator& generator, c10::DeviceIndex index, int64_t count);
uint64_t next_seed(const at::Generator& generator, c10::DeviceIndex index, int64_t count);

}  // namespace hostdevice
