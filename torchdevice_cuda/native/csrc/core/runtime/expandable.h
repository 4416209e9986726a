// A segment that grows: an address range larger than the device's memory, of which only the needed part has memory.
//
// With expandable_segments:True, a stream has one of these for its small blocks and one for its large blocks, instead
// of a new segment at each shortage. Memory is mapped in pages as large as an ordinary segment. For the machine the
// whole range is one anonymous mapping, and an unmapped page is one that was freed to the system.
#pragma once

#include <cstddef>
#include <utility>

#include "runtime/segments.h"

namespace hostdevice {

class ExpandableSegment {
 public:
  // `page` is a multiple of kChunk. Return null if the address range cannot be reserved.
  static ExpandableSegment* make(size_t device_size, size_t page);
  ~ExpandableSegment();
  ExpandableSegment(const ExpandableSegment&) = delete;
  ExpandableSegment& operator=(const ExpandableSegment&) = delete;

  char* base() const {
    return base_;
  }
  size_t size() const {
    return size_;
  }
  // Round up to the bytes of whole pages that hold the first `size` bytes of a range starting at a page.
  size_t whole_pages(size_t size) const {
    return round_up(size, page_);
  }
  // Return the start and the size in bytes of the whole pages within a range.
  std::pair<char*, size_t> pages_within(char* start, size_t size) const;
  // Free the memory of whole pages to the system; the addresses stay reserved.
  static void drop(char* start, size_t size);

 private:
  ExpandableSegment(char* base, size_t size, size_t page) : base_(base), size_(size), page_(page) {}

  char* const base_;
  const size_t size_, page_;
};

}  // namespace hostdevice
