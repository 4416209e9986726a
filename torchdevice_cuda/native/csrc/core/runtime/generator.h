// Random numbers: a generator of CUDA is a seed and an offset into Philox. Kernels of its own draw from those; in front
// of kernels of the CPU it seeds generators of the CPU.
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

  // Where a launch reads whose threads read `words` words each at most; the next one reads after it.
  Philox advance(uint64_t words);

  // While a graph is captured its draws do not count: every replay moves the offset by all of them.
  void begin_capture();
  // By how much that is.
  uint64_t end_capture();
  void skip(uint64_t by);
  // Graphs that draw from it keep its seed and offset in device memory, which is taken while there are any.
  void add_graph();
  void remove_graph();

  bool shares_state(const GeneratorImpl& other) const {
    return state_ == other.state_;
  }

  // A seed for the CPU generator that makes the next draw of `count` numbers; moves the offset as CUDA would.
  uint64_t next_seed(int64_t count);

 private:
  GeneratorImpl* clone_impl() const override;
  void refuse_in_capture(const char* what) const;
  // Where the next draw begins, which moves it by this; with the lock held.
  Philox move(uint64_t by);
  struct State : c10::intrusive_ptr_target {
    uint64_t seed;
    uint64_t offset = 0;
    bool capturing = false;
    uint64_t drawn = 0;  // in the capture
    int graphs = 0;
    c10::DataPtr kept_seed, kept_offset;
    explicit State(uint64_t s) : seed(s) {}
  };
  c10::intrusive_ptr<State> state_;
};

const at::Generator& default_generator(c10::DeviceIndex index);
// The same of `generator`, or of the device's own where none is given.
Philox advance(const std::optional<at::Generator>& generator, c10::DeviceIndex index, uint64_t words);
// The CPU generator a CPU kernel draws `count` numbers from on behalf of `generator` (undefined: the device's own).
at::Generator cpu_generator(const at::Generator& generator, c10::DeviceIndex index, int64_t count);
uint64_t next_seed(const at::Generator& generator, c10::DeviceIndex index, int64_t count);

}  // namespace hostdevice
