// Tables of operators: rows with a name `op`, found by it.
#pragma once

#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace hostdevice {

template <typename Row>
using RowsByName = std::unordered_map<std::string_view, const Row*>;

template <typename Row, size_t N>
RowsByName<Row> by_name(const Row (&rows)[N]) {
  RowsByName<Row> all;
  for (const Row& row : rows) all.emplace(row.op, &row);
  return all;
}

// Null where there is none.
template <typename Row>
const Row* find_row(const RowsByName<Row>& rows, std::string_view name) {
  const auto it = rows.find(name);
  return it != rows.end() ? it->second : nullptr;
}

}  // namespace hostdevice
