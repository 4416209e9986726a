// Thrust's algorithms that combine elements, or put them in order.
#pragma once

#include "host_cuda/orders.h"
#include "host_cuda/thrust/elementwise.h"

#pragma GCC visibility push(hidden)
namespace thrust::host_cuda_detail {

template <class In, class T, class Op = std::plus<>>
T reduce(In first, In last, T initial, Op op = Op()) {
  const auto n = static_cast<size_t>(last - first);
  return n ? static_cast<T>(op(initial, ::host_cuda::folded_range<T>(first, n, op))) : initial;
}
template <class In>
ValueOf<In> reduce(In first, In last) {
  return host_cuda_detail::reduce(first, last, ValueOf<In>{});
}
template <class In, class F, class T, class Op>
T transform_reduce(In first, In last, F f, T initial, Op op) {
  return host_cuda_detail::reduce(
      thrust::make_transform_iterator(first, f), thrust::make_transform_iterator(first, f) + (last - first), initial,
      op);
}
template <class A, class B, class T>
T inner_product(A first, A last, B other, T initial) {
  for (; first != last; ++first, ++other) initial = static_cast<T>(initial + *first * *other);
  return initial;
}
template <class A, class B, class T, class Add, class Times>
T inner_product(A first, A last, B other, T initial, Add add, Times times) {
  for (; first != last; ++first, ++other) initial = static_cast<T>(add(initial, times(*first, *other)));
  return initial;
}
template <class In, class Is>
std::ptrdiff_t count_if(In first, In last, Is is) {
  std::ptrdiff_t n = 0;
  for (; first != last; ++first) n += is(*first) ? 1 : 0;
  return n;
}
template <class In, class T>
std::ptrdiff_t count(In first, In last, const T& value) {
  return host_cuda_detail::count_if(first, last, [&](const auto& v) { return v == value; });
}
template <class In, class Less = std::less<>>
In min_element(In first, In last, Less less = Less()) {
  In found = first;
  for (In i = first; i != last; ++i)
    if (less(*i, *found)) found = i;
  return found;
}
template <class In, class Less = std::less<>>
In max_element(In first, In last, Less less = Less()) {
  In found = first;
  for (In i = first; i != last; ++i)
    if (less(*found, *i)) found = i;
  return found;
}
template <class In, class Less = std::less<>>
std::pair<In, In> minmax_element(In first, In last, Less less = Less()) {
  return {host_cuda_detail::min_element(first, last, less), host_cuda_detail::max_element(first, last, less)};
}

// ---- scans --------------------------------------------------------------------------------------------------------
template <class In, class Out, class Op = std::plus<>>
Out inclusive_scan(In first, In last, Out out, Op op = Op()) {
  if (first == last) return out;
  ValueOf<In> total = *first;
  for (*out++ = total, ++first; first != last; ++first, ++out) *out = total = op(total, *first);
  return out;
}
template <class In, class Out, class T, class Op = std::plus<>>
Out exclusive_scan(In first, In last, Out out, T initial, Op op = Op()) {
  for (; first != last; ++first, ++out) {
    const T next = static_cast<T>(op(initial, *first));
    *out = initial;
    initial = next;
  }
  return out;
}
template <class In, class Out>
Out exclusive_scan(In first, In last, Out out) {
  return host_cuda_detail::exclusive_scan(first, last, out, ValueOf<In>{});
}
template <class In, class Out, class F, class T, class Op>
Out transform_exclusive_scan(In first, In last, Out out, F f, T initial, Op op) {
  const auto from = thrust::make_transform_iterator(first, f);
  return host_cuda_detail::exclusive_scan(from, from + (last - first), out, initial, op);
}
template <class In, class Out, class F, class Op>
Out transform_inclusive_scan(In first, In last, Out out, F f, Op op) {
  const auto from = thrust::make_transform_iterator(first, f);
  return host_cuda_detail::inclusive_scan(from, from + (last - first), out, op);
}
template <class Keys, class In, class Out, class Same = std::equal_to<>, class Op = std::plus<>>
Out inclusive_scan_by_key(Keys first, Keys last, In in, Out out, Same same = Same(), Op op = Op()) {
  for (Keys begin = first; first != last; ++first, ++in, ++out) {
    const bool goes_on = first != begin && same(*(first - 1), *first);
    *out = goes_on ? static_cast<ValueOf<In>>(op(*(out - 1), *in)) : static_cast<ValueOf<In>>(*in);
  }
  return out;
}
template <class Keys, class In, class Out, class T = ValueOf<In>, class Same = std::equal_to<>, class Op = std::plus<>>
Out exclusive_scan_by_key(Keys first, Keys last, In in, Out out, T initial = T(0), Same same = Same(), Op op = Op()) {
  T total = initial;
  for (Keys begin = first; first != last; ++first, ++in, ++out) {
    if (first != begin && !same(*(first - 1), *first)) total = initial;
    const T next = static_cast<T>(op(total, *in));
    *out = total;
    total = next;
  }
  return out;
}

// ---- neighbours that are equal ------------------------------------------------------------------------------------
template <class Keys, class In, class KeysOut, class Out, class Same = std::equal_to<>, class Op = std::plus<>>
std::pair<KeysOut, Out> reduce_by_key(
    Keys first, Keys last, In in, KeysOut keys, Out out, Same same = Same(), Op op = Op()) {
  while (first != last) {
    const ValueOf<Keys> key = *first;
    ValueOf<In> total = *in;
    for (++first, ++in; first != last && same(key, *first); ++first, ++in) total = op(total, *in);
    *keys++ = key;
    *out++ = total;
  }
  return {keys, out};
}
template <class In, class Out, class Same = std::equal_to<>>
Out unique_copy(In first, In last, Out out, Same same = Same()) {
  while (first != last) {
    const ValueOf<In> value = *first;
    *out++ = value;
    while (++first != last && same(value, *first)) {
    }
  }
  return out;
}
template <class It, class Same = std::equal_to<>>
It unique(It first, It last, Same same = Same()) {
  return host_cuda_detail::unique_copy(first, last, first, same);
}
template <class Keys, class In, class KeysOut, class Out, class Same = std::equal_to<>>
std::pair<KeysOut, Out> unique_by_key_copy(Keys first, Keys last, In in, KeysOut keys, Out out, Same same = Same()) {
  return host_cuda_detail::reduce_by_key(
      first, last, in, keys, out, same, [](const auto& a, const auto&) { return a; });
}
template <class Keys, class Values, class Same = std::equal_to<>>
std::pair<Keys, Values> unique_by_key(Keys first, Keys last, Values values, Same same = Same()) {
  return host_cuda_detail::unique_by_key_copy(first, last, values, first, values, same);
}

// ---- order --------------------------------------------------------------------------------------------------------
// By way of copies: an iterator's elements may be made up of several.
template <class It, class Less = std::less<>>
void stable_sort(It first, It last, Less less = Less()) {
  std::vector<ValueOf<It>> all;
  for (It i = first; i != last; ++i) all.push_back(*i);
  std::stable_sort(all.begin(), all.end(), less);
  host_cuda_detail::copy(all.begin(), all.end(), first);
}
template <class It, class Less = std::less<>>
void sort(It first, It last, Less less = Less()) {
  host_cuda_detail::stable_sort(first, last, less);
}
template <class Keys, class Values, class Less = std::less<>>
void stable_sort_by_key(Keys first, Keys last, Values values, Less less = Less()) {
  std::vector<ValueOf<Keys>> keys;
  std::vector<ValueOf<Values>> others;
  std::vector<std::ptrdiff_t> order;
  for (std::ptrdiff_t i = 0; i < last - first; ++i) {
    keys.push_back(first[i]);
    others.push_back(values[i]);
    order.push_back(i);
  }
  const auto at = [&](std::ptrdiff_t i) -> const auto& { return keys[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return less(at(a), at(b)); });
  for (const auto from : order) {
    *first++ = at(from);
    *values++ = others[static_cast<size_t>(from)];
  }
}
template <class Keys, class Values, class Less = std::less<>>
void sort_by_key(Keys first, Keys last, Values values, Less less = Less()) {
  host_cuda_detail::stable_sort_by_key(first, last, values, less);
}
template <class It, class Less = std::less<>>
bool is_sorted(It first, It last, Less less = Less()) {
  for (It i = first; i != last; ++i)
    if (i != first && less(*i, *(i - 1))) return false;
  return true;
}
template <class It, class Is>
It stable_partition(It first, It last, Is is) {
  std::vector<ValueOf<It>> yes, no;
  for (It i = first; i != last; ++i) (is(*i) ? yes : no).push_back(*i);
  const It middle = host_cuda_detail::copy(yes.begin(), yes.end(), first);
  host_cuda_detail::copy(no.begin(), no.end(), middle);
  return middle;
}
template <class It, class Is>
It partition(It first, It last, Is is) {
  return host_cuda_detail::stable_partition(first, last, is);
}
template <class A, class B, class Out, class Less = std::less<>>
Out merge(A first, A last, B other, B others_end, Out out, Less less = Less()) {
  while (first != last || other != others_end)
    if (first == last || (other != others_end && less(*other, *first)))
      *out++ = *other++;
    else
      *out++ = *first++;
  return out;
}

// ---- places in what is sorted: of one value, or of many ------------------------------------------------------------
template <class It, class T, class Before>
It first_not(It first, It last, const T& value, Before before) {
  std::ptrdiff_t n = last - first;
  while (n > 0) {
    const std::ptrdiff_t half = n / 2;
    if (before(first[half], value)) {
      first += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return first;
}
struct Below {
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return a < b;
  }
};
struct NotAbove {
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    return !(b < a);
  }
};
template <class It, class T>
It lower_bound(It first, It last, const T& value) {
  return host_cuda_detail::first_not(first, last, value, Below());
}
template <class It, class T>
It upper_bound(It first, It last, const T& value) {
  return host_cuda_detail::first_not(first, last, value, NotAbove());
}
template <class It, class T>
bool binary_search(It first, It last, const T& value) {
  const It found = host_cuda_detail::lower_bound(first, last, value);
  return found != last && !(value < *found);
}
template <class It, class In, class Out>
Out lower_bound(It first, It last, In in, In end, Out out) {
  for (; in != end; ++in, ++out)
    *out = static_cast<ValueOf<Out>>(host_cuda_detail::lower_bound(first, last, *in) - first);
  return out;
}
template <class It, class In, class Out>
Out upper_bound(It first, It last, In in, In end, Out out) {
  for (; in != end; ++in, ++out)
    *out = static_cast<ValueOf<Out>>(host_cuda_detail::upper_bound(first, last, *in) - first);
  return out;
}
template <class It, class In, class Out>
Out binary_search(It first, It last, In in, In end, Out out) {
  for (; in != end; ++in, ++out) *out = host_cuda_detail::binary_search(first, last, *in);
  return out;
}

}  // namespace thrust::host_cuda_detail
#pragma GCC visibility pop
