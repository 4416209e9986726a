#include "operators/rows.h"

#include <unordered_map>

#include "compat.h"
#include "operators/registration.h"
#include "operators/rules.h"

namespace hostdevice {
namespace {

constexpr Row kRows[] = {
#include "contract/rows.inc"
};

}  // namespace

std::string row_name(const std::string& operator_name) {
  std::string name = aten_name(operator_name, "");
  if (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

const Row& find_row(std::string_view name) {
  static const auto* rows = [] {
    auto* all = new std::unordered_map<std::string_view, const Row*>;
    for (const Row& row : kRows) all->emplace(row.op, &row);
    return all;
  }();
  static constexpr Row kNone{""};
  const auto found = rows->find(name);
  return found == rows->end() ? kNone : *found->second;
}

}  // namespace hostdevice
