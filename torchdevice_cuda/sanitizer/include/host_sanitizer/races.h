// Races in global memory, within one launch: who used each place last, and what orders blocks.
//
// Threads of one block are ordered by its barriers. Blocks are ordered by grid.sync(), and by an atomic operation that
// comes after a fence in one block and before an atomic operation on the same address in the other.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <mutex>
#include <unordered_map>
#include <vector>

#pragma GCC visibility push(hidden)
namespace host_sanitizer {

enum class Kind : uint8_t { kRead, kWrite, kAtomic };

// Who used a place, when, and by which instruction.
struct Use {
  uint32_t moment = 0;  // 0: nobody
  uint32_t clock = 0;   // of the thread in its warp
  uint16_t rank = 0;    // of the thread in its block
  Kind kind = Kind::kRead;
  int32_t from = 0;
};
// A stretch of a block between two things that order it.
struct Moment {
  uint32_t block, phase, interval, epoch;
};

// An address through which blocks tell each other that something is done.
struct Signal {
  struct Release {
    uint32_t index, epoch;
  };
  uint32_t count = 0;
  std::unordered_map<uint32_t, std::vector<Release>> by_block;
  std::unordered_map<const Signal*, uint32_t> known;  // by the blocks that released it

  bool has(uint32_t block, uint32_t epoch, uint32_t until) const {
    const auto found = by_block.find(block);
    if (found == by_block.end()) return false;
    for (const Release& one : found->second)
      if (one.index < until && one.epoch >= epoch) return true;
    return false;
  }
};

// A block that runs.
struct Block {
  uint32_t number = 0, phase = 0, interval = 0, epoch = 1, fenced = 0, moment = 0;
  std::unordered_map<const Signal*, uint32_t> known;
  // It has heard of so much that it is taken to know all.
  bool knows_all = false;
};

class Races {
 public:
  static Races& get() {
    static auto* made = new Races;
    return *made;
  }
  std::mutex mutex;

  void begin_launch() {
    for (auto& page : pages_) free(page.second.cells);
    pages_.clear();
    signals_.clear();
    moments_.assign(1, Moment{});
    last_page_ = 0;
    last_ = nullptr;
  }
  void begin_block(Block& block, uint32_t number, uint32_t interval) {
    block.known.clear();
    block.knows_all = false;
    block.number = number, block.phase = 0, block.interval = interval, block.epoch = 1, block.fenced = 0;
    advance(block);
  }
  void pass_barrier(Block& block, uint32_t interval) {
    block.interval = interval;
    advance(block);
  }
  void pass_grid_barrier(Block& block) {
    ++block.phase;
    advance(block);
  }
  // What the block has written so far is seen by whoever sees its next atomic operation.
  void fence(Block& block) {
    block.fenced = block.epoch++;
    advance(block);
  }
  // An atomic operation on an address that reads (`hears`), writes (`tells`) or does both.
  void signal(Block& block, uintptr_t at, bool hears, bool tells) {
    const auto found = signals_.find(at);
    if (hears && found != signals_.end()) hear(block, found->second);
    if (tells && block.fenced) release(block, found != signals_.end() ? found->second : signals_[at]);
  }
  const Moment& moment(const Use& use) const {
    return moments_[use.moment];
  }

  // Notes a use of `n` bytes; returns whether it conflicts with an earlier one, which is `with` then.
  // `is_ordered(before, now)`: whether a warp's threads have met in between.
  template <class Ordered>
  bool use(Block& block, uintptr_t p, size_t n, Use now, Use& with, Ordered is_ordered) {
    now.moment = block.moment;
    bool found = false;
    for (uintptr_t at = p; at < p + n;) {
      Page& page = find_page(at);
      const uintptr_t end = p + n < (at | 4095) + 1 ? p + n : (at | 4095) + 1;
      if (!page.is_fine && ((at | end) & 3)) refine(page);
      const unsigned step = page.is_fine ? 1 : 4;
      for (; at < end; at += step)
        found = visit(block, page.cells[(at & 4095) / step], now, with, found, is_ordered) || found;
    }
    return found;
  }

 private:
  // Two reads of threads that nothing orders: of many that is enough to see nearly every later write.
  struct Cell {
    Use write, reads[2];
  };
  struct Page {
    Cell* cells = nullptr;
    bool is_fine = false;  // a cell for each byte, otherwise for four
  };
  static constexpr size_t kMostKnown = 64;

  void advance(Block& block) {
    block.moment = static_cast<uint32_t>(moments_.size());
    moments_.push_back({block.number, block.phase, block.interval, block.epoch});
  }
  static Cell* make_cells(size_t count) {
    auto* const made = static_cast<Cell*>(calloc(count, sizeof(Cell)));
    if (!made) abort();
    return made;
  }
  Page& find_page(uintptr_t at) {
    const uintptr_t number = at >> 12;
    if (last_ && last_page_ == number) return *last_;
    Page& page = pages_[number];
    if (!page.cells) page.cells = make_cells(1024);
    last_page_ = number;
    last_ = &page;
    return page;
  }
  static void refine(Page& page) {
    Cell* const fine = make_cells(4096);
    for (size_t i = 0; i < 4096; ++i) fine[i] = page.cells[i / 4];
    free(page.cells);
    page = {fine, true};
  }

  void hear(Block& block, const Signal& signal) {
    if (block.knows_all || !signal.count) return;
    learn(block.known, &signal, signal.count);
    for (const auto& one : signal.known) learn(block.known, one.first, one.second);
    if (block.known.size() > kMostKnown) block.knows_all = true;
  }
  void release(Block& block, Signal& signal) {
    auto& mine = signal.by_block[block.number];
    if (mine.empty() || mine.back().epoch < block.fenced) mine.push_back({signal.count++, block.fenced});
    for (const auto& one : block.known) learn(signal.known, one.first, one.second);
  }
  static void learn(std::unordered_map<const Signal*, uint32_t>& known, const Signal* signal, uint32_t count) {
    uint32_t& now = known[signal];
    if (now < count) now = count;
  }
  bool knows(const Block& block, const Moment& before) const {
    if (block.knows_all) return true;
    for (const auto& one : block.known)
      if (one.first->has(before.block, before.epoch, one.second)) return true;
    return false;
  }
  template <class Ordered>
  bool is_before(const Block& block, const Use& before, const Use& now, Ordered is_ordered) const {
    if (!before.moment) return true;
    const Moment& then = moments_[before.moment];
    if (then.block != block.number) return then.phase < block.phase || knows(block, then);
    return then.interval != block.interval || before.rank == now.rank || is_ordered(before, now);
  }
  // Atomic operations do not conflict with each other, nor with reads, by which programs begin a loop of atomicCAS.
  static bool are_compatible(Kind a, Kind b) {
    return (a == Kind::kRead && b == Kind::kRead) || (a == Kind::kAtomic && b != Kind::kWrite) ||
        (b == Kind::kAtomic && a != Kind::kWrite);
  }
  template <class Ordered>
  bool visit(const Block& block, Cell& cell, const Use& now, Use& with, bool has_found, Ordered is_ordered) {
    bool found = false;
    const auto compare = [&](const Use& before) {
      if (found || has_found || are_compatible(before.kind, now.kind) || is_before(block, before, now, is_ordered))
        return;
      with = before;
      found = true;
    };
    compare(cell.write);
    if (now.kind == Kind::kRead) {
      Use(&reads)[2] = cell.reads;
      if (!is_before(block, reads[0], now, is_ordered)) reads[1] = reads[0];
      reads[0] = now;
      return found;
    }
    for (const Use& read : cell.reads) compare(read);
    cell.reads[0] = cell.reads[1] = Use{};
    cell.write = now;
    return found;
  }

  std::unordered_map<uintptr_t, Page> pages_;
  std::unordered_map<uintptr_t, Signal> signals_;
  std::vector<Moment> moments_{Moment{}};
  uintptr_t last_page_ = 0;
  Page* last_ = nullptr;
};

}  // namespace host_sanitizer
#pragma GCC visibility pop
