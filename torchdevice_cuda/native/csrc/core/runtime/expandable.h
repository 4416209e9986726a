// A segment that grows: a stretch of addresses as long as the device is large, of which as much has memory as was
// needed.
//
// With expandable_segments:True a stream has one of these for its small blocks and one for its large ones, instead of
// a segment a shortage. Memory comes and goes in pages as large as an ordinary segment. To the machine all of it is one
// anonymous mapping, and a page without memory is one that was given back to the system.
#pragma once

#include <cstddef>
#include <utility>

#include "runtime/segments.h"

namespace hostdevice {

class ExpandableSegment {
 public:
  // `page` is a multiple of kChunk. Null if there is no room for that many addresses.
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
  // How many bytes of pages hold the first `size` of a stretch that begins with a page.
  size_t whole_pages(size_t size) const {
    return round_up(size, page_);
  }
  // The whole pages within a stretch: where they begin, and how many bytes they are.
  std::pair<char*, size_t> pages_within(char* start, size_t size) const;
  // Gives the memory of whole pages back to the machine; the addresses stay.
  static void drop(char* start, size_t size);

 private:
  ExpandableSegment(char* base, size_t size, size_t page) : base_(base), size_(size), page_(page) {}

  char* const base_;
  const size_t size_, page_;
};

}  // namespace hostdevice
