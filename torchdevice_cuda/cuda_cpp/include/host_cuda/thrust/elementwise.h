// Thrust's algorithms that look at one element after the other.
#pragma once

#include <algorithm>
#include <numeric>

#include "host_cuda/thrust/iterators.h"
#include "host_cuda/thrust/policies.h"
#include "host_cuda/thrust/vectors.h"

#pragma GCC visibility push(hidden)
namespace thrust::host_cuda_detail {

template <class In, class F>
In for_each(In first, In last, F f) {
  for (; first != last; ++first) f(*first);
  return first;
}
template <class In, class N, class F>
In for_each_n(In first, N n, F f) {
  return host_cuda_detail::for_each(first, first + n, f);
}
template <class In, class Out, class F>
Out transform(In first, In last, Out out, F f) {
  for (; first != last; ++first, ++out) *out = f(*first);
  return out;
}
template <class In, class Other, class Out, class F>
Out transform(In first, In last, Other other, Out out, F f) {
  for (; first != last; ++first, ++other, ++out) *out = f(*first, *other);
  return out;
}
template <class In, class Out, class F, class Keep>
Out transform_if(In first, In last, Out out, F f, Keep keep) {
  for (; first != last; ++first, ++out)
    if (keep(*first)) *out = f(*first);
  return out;
}
template <class In, class Stencil, class Out, class F, class Keep>
Out transform_if(In first, In last, Stencil stencil, Out out, F f, Keep keep) {
  for (; first != last; ++first, ++stencil, ++out)
    if (keep(*stencil)) *out = f(*first);
  return out;
}
template <class In, class Out>
Out copy(In first, In last, Out out) {
  for (; first != last; ++first, ++out) *out = *first;
  return out;
}
template <class In, class N, class Out>
Out copy_n(In first, N n, Out out) {
  return host_cuda_detail::copy(first, first + n, out);
}
template <class In, class Out, class Keep>
Out copy_if(In first, In last, Out out, Keep keep) {
  for (; first != last; ++first)
    if (keep(*first)) *out++ = *first;
  return out;
}
template <class In, class Stencil, class Out, class Keep>
Out copy_if(In first, In last, Stencil stencil, Out out, Keep keep) {
  for (; first != last; ++first, ++stencil)
    if (keep(*stencil)) *out++ = *first;
  return out;
}
template <class It, class Drop>
It remove_if(It first, It last, Drop drop) {
  It out = first;
  for (; first != last; ++first)
    if (!drop(*first)) *out++ = *first;
  return out;
}
template <class It, class Stencil, class Drop>
It remove_if(It first, It last, Stencil stencil, Drop drop) {
  It out = first;
  for (; first != last; ++first, ++stencil)
    if (!drop(*stencil)) *out++ = *first;
  return out;
}
template <class In, class Out, class Drop>
Out remove_copy_if(In first, In last, Out out, Drop drop) {
  return host_cuda_detail::copy_if(first, last, out, [&](const auto& v) { return !drop(v); });
}
template <class It, class T>
It remove(It first, It last, const T& value) {
  return host_cuda_detail::remove_if(first, last, [&](const auto& v) { return v == value; });
}
template <class It, class T>
void fill(It first, It last, const T& value) {
  for (; first != last; ++first) *first = value;
}
template <class It, class N, class T>
It fill_n(It first, N n, const T& value) {
  host_cuda_detail::fill(first, first + n, value);
  return first + n;
}
template <class It, class T>
void uninitialized_fill(It first, It last, const T& value) {
  host_cuda_detail::fill(first, last, value);
}
template <class It, class F>
void generate(It first, It last, F f) {
  for (; first != last; ++first) *first = f();
}
template <class It, class F>
void tabulate(It first, It last, F f) {
  for (std::ptrdiff_t i = 0; first != last; ++first, ++i) *first = f(static_cast<ValueOf<It>>(i));
}
template <class It, class T = ValueOf<It>>
void sequence(It first, It last, T begin = T(0), T step = T(1)) {
  T i = 0;
  for (; first != last; ++first, i = static_cast<T>(i + T(1))) *first = static_cast<ValueOf<It>>(begin + step * i);
}
template <class It, class Is, class T>
void replace_if(It first, It last, Is is, const T& value) {
  for (; first != last; ++first)
    if (is(*first)) *first = value;
}
template <class It, class T>
void replace(It first, It last, const T& old, const T& value) {
  host_cuda_detail::replace_if(first, last, [&](const auto& v) { return v == old; }, value);
}
template <class Map, class In, class Out>
Out gather(Map first, Map last, In in, Out out) {
  for (; first != last; ++first, ++out) *out = in[static_cast<std::ptrdiff_t>(*first)];
  return out;
}
template <class In, class Map, class Out>
void scatter(In first, In last, Map map, Out out) {
  for (; first != last; ++first, ++map) out[static_cast<std::ptrdiff_t>(*map)] = *first;
}
template <class In, class Map, class Stencil, class Out>
void scatter_if(In first, In last, Map map, Stencil stencil, Out out) {
  for (; first != last; ++first, ++map, ++stencil)
    if (*stencil) out[static_cast<std::ptrdiff_t>(*map)] = *first;
}
template <class In, class Out, class F = std::minus<>>
Out adjacent_difference(In first, In last, Out out, F f = F()) {
  if (first == last) return out;
  ValueOf<In> before = *first;
  for (*out++ = before, ++first; first != last; ++first, ++out) {
    const ValueOf<In> now = *first;
    *out = f(now, before);
    before = now;
  }
  return out;
}
template <class It>
void reverse(It first, It last) {
  std::vector<ValueOf<It>> all(first, last);
  host_cuda_detail::copy(all.rbegin(), all.rend(), first);
}
template <class In, class T>
In find(In first, In last, const T& value) {
  while (first != last && !(*first == value)) ++first;
  return first;
}
template <class In, class Is>
In find_if(In first, In last, Is is) {
  while (first != last && !is(*first)) ++first;
  return first;
}
template <class In, class Is>
bool any_of(In first, In last, Is is) {
  return host_cuda_detail::find_if(first, last, is) != last;
}
template <class In, class Is>
bool all_of(In first, In last, Is is) {
  return !host_cuda_detail::any_of(first, last, [&](const auto& v) { return !is(v); });
}
template <class In, class Is>
bool none_of(In first, In last, Is is) {
  return !host_cuda_detail::any_of(first, last, is);
}
template <class A, class B>
bool equal(A first, A last, B other) {
  for (; first != last; ++first, ++other)
    if (!(*first == *other)) return false;
  return true;
}

}  // namespace thrust::host_cuda_detail
#pragma GCC visibility pop
