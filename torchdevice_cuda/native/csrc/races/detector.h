// The detector of races: compares each access of device memory and of pinned memory with the earlier ones that no
// stream, event or wait orders before it.
//
// Work runs in the order of its issue; only the order that CUDA guarantees is modeled here. One lock protects
// everything. Under it no Python runs and nothing is allocated on the device; findings are reported without it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "races/clocks.h"
#include "races/shadow.h"
#include "runtime/observer.h"

namespace hostdevice {

// A line of the program that calls something.
struct Caller {
  const std::string* op = nullptr;
  Site site = kNoSite;
  bool in_backward = false;
};
// Return the calling thread's current line.
Caller find_caller(const std::string* op);

// An access that a call is about to make.
struct NewAccess {
  Layout layout;
  bool writes;
  c10::ScalarType type;
  std::vector<int64_t> sizes;
  bool on_device = false;
};
NewAccess access_of(const at::Tensor& tensor, bool writes);
// Look up where the memory is. The memory's lock is held where blocks are reported, so it comes before the detector's.
std::vector<NewAccess> list_observed(const std::vector<ObservedAccess>& accesses);

enum class FindingKind : uint8_t { Streams, Host, Freed };

struct Finding {
  FindingKind kind;
  AccessInfo earlier, later;
  std::string earlier_stream, later_stream;
  std::string owner_stream;  // of freed memory
  Site allocated = kNoSite, freed = kNoSite;
  c10::DeviceIndex device = -1;
  // The later stream waits for other, earlier work of the earlier stream.
  bool waits_for_earlier_work = false;
};

// When a finding raises: at the call that completes it, in the thread's next Python code, or at the next call that can.
enum class Raises : uint8_t { Now, Later, Never };

class Detector final : public StreamObserver {
 public:
  static Detector& get();
  // Called for each finding, without a lock. It may throw if `can_raise`.
  static void (*report)(const Finding& finding, bool can_raise);

  // Work on a stream with these accesses; return its position, for more accesses of the same work.
  Epoch begin_work(
      const StreamState& stream, const Caller& caller, const std::vector<NewAccess>& accesses,
      Raises raises = Raises::Now);
  void continue_work(Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses);
  // Report pairs of lines again that were reported before.
  void forget_findings();
  // Compare accesses of the host to pages of copies in flight from now on.
  void watch_pages();
  // Accesses of the host, at this moment.
  void access_on_host(const Caller& caller, const std::vector<NewAccess>& accesses, Raises raises = Raises::Now);
  // Whether copies may be accessing any pinned memory; a relaxed answer.
  bool has_pinned_accesses() const {
    return has_pinned_.load(std::memory_order_relaxed);
  }
  // Whether copies may be accessing this pinned memory.
  bool may_be_in_flight(const Layout& layout);
  // The same for work that a graph captures on a stream. It is compared with other work of the capture, and added to
  // what a launch of the graph accesses.
  Epoch begin_captured_work(const StreamState& stream, const Caller& caller, const std::vector<NewAccess>& accesses);
  void continue_captured_work(
      const StreamState& stream, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses);
  // Order the next work on a stream after what the other has done.
  void order(const StreamState& stream, const StreamState& after);

  void record_event(const EventState& event, const StreamState& stream) override;
  void wait_for_event(const StreamState& stream, const EventState& event) override;
  void destroy_event(const EventState& event) override;
  void synchronize(const StreamState& stream) override;
  void synchronize(const EventState& event) override;
  void synchronize(c10::DeviceIndex device) override;
  void end_query(const StreamState& stream, bool is_done) override;
  void end_query(const EventState& event, bool is_done) override;
  void run_work(const StreamState& stream, const char* name, const std::vector<ObservedAccess>& accesses) override;
  void begin_memory_call() override;
  void allocate(const ObservedBlock& block) override;
  void free(const ObservedBlock& block) override;
  void unmap(char* at, size_t bytes) override;
  void free_pinned(char* at, size_t bytes) override;
  void launch_graph(uint64_t capture, const StreamState& stream) override;
  void capture_kernel(const StreamState& stream, const char* name) override;
  void run_captured_kernel(uint64_t capture, size_t number, const std::vector<ObservedAccess>& accesses) override;
  void end_launch(uint64_t capture) override;
  void destroy_graph(uint64_t capture) override;

 private:
  struct Block {
    uintptr_t begin, end;
    const StreamState* stream;
    const void* pool;
    uint64_t number;  // of its allocation, among allocations and frees
    Site allocated;
  };
  // An access that its block's stream was not ordered after when the block was freed.
  struct Leftover {
    Access access;
    Block block;
    uint64_t free_number;
    Site freed;
  };
  // Work that is ordered among itself: that of the program, or that of a graph.
  struct Order {
    Clocks clocks;
    Shadow device, pinned;
    std::vector<Leftover> leftovers;
  };
  struct CapturedWork {
    Epoch epoch;
    Clock clock;
    Caller caller;
    std::vector<NewAccess> accesses;
  };
  struct Graph {
    Order order;
    std::vector<CapturedWork> work;  // in the order of the capture
    std::vector<size_t> kernels;     // the program's own, among `work`; a launch shows what they access
    Epoch launched;                  // the last launch
    bool has_new_accesses = false;   // of kernels, which were not compared yet
    // What a launch accesses, in the order of the captured calls.
    std::vector<std::pair<const std::string*, NewAccess>> accesses;
    std::map<std::pair<uintptr_t, uintptr_t>, size_t> by_address;  // positions in `accesses`
  };
  using Lock = std::unique_lock<std::mutex>;

  // The lock must be held for these functions.
  void add_accesses(Order& order, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses);
  void check_leftovers(Order& order, const Layout& layout, const AccessInfo& later, Actor actor);
  void find(Order& order, FindingKind kind, const AccessInfo& earlier, const AccessInfo& later, Finding finding);
  void free_in(Order& order, const ObservedBlock& b, const Block& block);
  Epoch begin_in_graph(Graph& graph, const StreamState& stream, const Caller& caller);
  void add_to_graph(Graph& graph, Epoch epoch, const Caller& caller, const std::vector<NewAccess>& accesses);
  // Compare all work of a graph again, with what its kernels access.
  void compare_kernels(const Graph& graph);
  const Block* block_at(uintptr_t address) const;
  std::string name_stream(const StreamState& stream);
  void drop_finished_host_accesses();
  bool is_in_flight(const Layout& layout) const;
  void access_page(uintptr_t address, bool writes);
  // Return the graph of a capture; null if it has no work.
  Graph* find_graph(uint64_t capture);
  // Report new findings after the lock is released.
  void report_new(Lock& lock, Raises raises = Raises::Now);

  std::mutex mutex_;
  Order main_;
  std::map<uint64_t, Graph> graphs_;  // by the id of the capture
  std::vector<std::pair<Layout, bool>>
      launched_;  // pinned memory that the launch under way accesses, and whether it writes
  std::atomic<bool> has_pinned_{false};
  std::map<uintptr_t, Block> blocks_;
  uint64_t memory_calls_ = 0;
  std::set<std::pair<std::string, std::string>> reported_;
  std::vector<Finding> new_;
};

}  // namespace hostdevice
