#include "races/shadow.h"

#include <algorithm>

namespace hostdevice {
namespace {

// Accesses of a cell besides the last write. Beyond this number the oldest ones are dropped, which can only hide races.
constexpr size_t kMostInCell = 64;

}  // namespace

Shadow::Cells::iterator Shadow::find(uintptr_t address) {
  auto it = cells_.upper_bound(address);
  if (it != cells_.begin() && std::prev(it)->second.end > address) --it;
  return it;
}

Shadow::Cells::const_iterator Shadow::find(uintptr_t address) const {
  return const_cast<Shadow*>(this)->find(address);
}

void Shadow::check(const Layout& layout, bool writes, const Check& is_before) const {
  for (auto it = find(layout.begin()); it != cells_.end() && it->first < layout.end(); ++it) {
    const auto& cell = it->second;
    const auto begin = std::max(it->first, layout.begin()), end = std::min(cell.end, layout.end());
    if (cell.write && layout.touches(begin, end)) is_before(*cell.write);
    for (const auto& other : cell.more)
      if ((writes || other->info->writes) && layout.overlaps(other->layout, begin, end)) is_before(*other);
  }
}

void Shadow::split(uintptr_t address) {
  const auto it = find(address);
  if (it == cells_.end() || it->first >= address) return;
  Cell right = it->second;
  it->second.end = address;
  cells_.emplace(address, std::move(right));
}

void Shadow::add(Access given, const Check& is_before) {
  const auto access = std::make_shared<const Access>(std::move(given));
  const auto begin = access->layout.begin(), end = access->layout.end();
  const bool covers = access->info->writes && access->layout.is_dense();
  split(begin);
  split(end);
  if (covers) {
    cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
    cells_.emplace(begin, Cell{end, access, {}});
    return;
  }
  // An earlier access need not be kept if whatever is ordered after the new one is ordered after it, too.
  const auto is_replaced = [&](const std::shared_ptr<const Access>& old) {
    if (old->info->writes && !access->info->writes) return false;
    if (!access->layout.is_dense() && !(old->layout == access->layout)) return false;
    return is_before(*old);
  };
  auto at = begin;
  for (auto it = cells_.lower_bound(begin); at < end; ++it) {
    if (it == cells_.end() || it->first > at) {
      const auto next = it == cells_.end() ? end : std::min(end, it->first);
      it = cells_.emplace_hint(it, at, Cell{next, nullptr, {}});
    }
    auto& cell = it->second;
    cell.more.erase(std::remove_if(cell.more.begin(), cell.more.end(), is_replaced), cell.more.end());
    if (cell.more.size() >= kMostInCell) cell.more.erase(cell.more.begin());
    cell.more.push_back(access);
    at = cell.end;
  }
}

void Shadow::each(uintptr_t begin, uintptr_t end, const std::function<void(const Access&)>& f) const {
  for (auto it = find(begin); it != cells_.end() && it->first < end; ++it) {
    if (it->second.write) f(*it->second.write);
    for (const auto& other : it->second.more) f(*other);
  }
}

void Shadow::erase_if(const std::function<bool(const Access&)>& f) {
  for (auto it = cells_.begin(); it != cells_.end();) {
    auto& cell = it->second;
    if (cell.write && f(*cell.write)) cell.write = nullptr;
    const auto is_erased = [&](const std::shared_ptr<const Access>& access) { return f(*access); };
    cell.more.erase(std::remove_if(cell.more.begin(), cell.more.end(), is_erased), cell.more.end());
    it = cell.write || !cell.more.empty() ? std::next(it) : cells_.erase(it);
  }
}

void Shadow::erase(uintptr_t begin, uintptr_t end) {
  split(begin);
  split(end);
  cells_.erase(cells_.lower_bound(begin), cells_.lower_bound(end));
}

}  // namespace hostdevice
