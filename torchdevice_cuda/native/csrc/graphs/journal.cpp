#include "graphs/journal.h"

#include <algorithm>
#include <cstring>

#include "runtime/host.h"

namespace hostdevice {
namespace {

using Ranges = std::map<char*, char*>;

// Return the parts of a range that are in none of these ranges.
std::vector<std::pair<char*, char*>> outside(const Ranges& ranges, char* begin, char* end) {
  std::vector<std::pair<char*, char*>> parts;
  auto it = ranges.upper_bound(begin);
  if (it != ranges.begin()) begin = std::max(begin, std::prev(it)->second);
  for (; begin < end && it != ranges.end() && it->first < end; ++it) {
    if (begin < it->first) parts.emplace_back(begin, it->first);
    begin = std::max(begin, it->second);
  }
  if (begin < end) parts.emplace_back(begin, end);
  return parts;
}

void add(Ranges& ranges, char* begin, char* end) {
  for (const auto& [from, to] : outside(ranges, begin, end)) ranges.emplace(from, to);
}

}  // namespace

void Journal::add_used(char* begin, size_t bytes) {
  add(used_, begin, begin + bytes);
}

void Journal::add_own(char* begin, size_t bytes) {
  char* const end = begin + bytes;
  auto it = used_.upper_bound(begin);
  if (it != used_.begin() && std::prev(it)->second > begin) --it;
  for (; it != used_.end() && it->first < end; ++it) save(std::max(begin, it->first), std::min(end, it->second));
  add(own_, begin, begin + bytes);
}

void Journal::save(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.numel() == 0) return;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); d++) last += (tensor.size(d) - 1) * tensor.stride(d);
  auto* const begin = static_cast<char*>(const_cast<void*>(tensor.const_data_ptr()));
  if (!begin) return;
  const size_t before = saved_.size();
  save(begin, begin + (static_cast<size_t>(last) + 1) * tensor.itemsize());
  if (saved_.size() != before) storages_.push_back(tensor.storage());
}

void Journal::save(char* begin, char* end) {
  for (const auto& [from, to] : outside(own_, begin, end)) {
    for (const auto& [first, last] : outside(known_, from, to)) {
      const auto size = static_cast<size_t>(last - first);
      auto bytes = std::make_unique<char[]>(size);
      std::memcpy(bytes.get(), first, size);
      saved_.push_back({first, std::move(bytes), size});
    }
    add(known_, from, to);
  }
}

void Journal::restore() {
  if (!g_only_promises)
    for (const auto& [begin, end] : own_) std::memset(begin, 0, static_cast<size_t>(end - begin));
  for (const auto& saved : saved_) std::memcpy(saved.at, saved.bytes.get(), saved.size);
  saved_.clear();
  storages_.clear();
  own_.clear();
  known_.clear();
  used_.clear();
}

}  // namespace hostdevice
