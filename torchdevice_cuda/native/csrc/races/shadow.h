// The accesses of each byte that later accesses may conflict with: the last write, and the reads since.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "races/clocks.h"
#include "races/layout.h"
#include "runtime/ledger.h"

namespace hostdevice {

// What a report says about an access.
struct AccessInfo {
  const std::string* op;
  Site site;
  bool in_backward;
  const StreamState* stream;  // null: the host
  bool writes;
  c10::ScalarType type;
  std::vector<int64_t> sizes;
  int64_t at_ns;  // on the clock of now_ns()
};
struct Access {
  Epoch epoch;
  Layout layout;
  std::shared_ptr<const AccessInfo> info;
};

class Shadow {
 public:
  // Called with each earlier access that overlaps a new one. Return whether it is ordered before the new one.
  using Check = std::function<bool(const Access& earlier)>;

  // Compare an access with the earlier ones that it conflicts with, and call `check` for each.
  void check(const Layout& layout, bool writes, const Check& is_before) const;
  // Store an access; `is_before` tells which earlier ones can be dropped.
  void add(Access access, const Check& is_before);
  // Call f with each access in the range.
  void each(uintptr_t begin, uintptr_t end, const std::function<void(const Access&)>& f) const;
  void erase(uintptr_t begin, uintptr_t end);
  // Erase the accesses for which f returns true.
  void erase_if(const std::function<bool(const Access&)>& f);
  bool is_empty() const {
    return cells_.empty();
  }

 private:
  struct Cell {
    uintptr_t end;
    std::shared_ptr<const Access> write;              // touches the whole cell
    std::vector<std::shared_ptr<const Access>> more;  // reads, and accesses that touch parts of it
  };
  using Cells = std::map<uintptr_t, Cell>;

  // Return the first cell that ends after an address.
  Cells::iterator find(uintptr_t address);
  Cells::const_iterator find(uintptr_t address) const;
  // Make cells begin and end at an address.
  void split(uintptr_t address);

  Cells cells_;  // do not overlap
};

}  // namespace hostdevice
