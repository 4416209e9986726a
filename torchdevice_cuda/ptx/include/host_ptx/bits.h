// Registers of PTX hold bits; an instruction gives them a type.
#pragma once
#include <stdint.h>
#include <string.h>

#define HOST_PTX static inline __attribute__((always_inline, unused))

namespace host_ptx {

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;
template <bool, class A, class B>
struct choose {
  typedef A type;
};
template <class A, class B>
struct choose<false, A, B> {
  typedef B type;
};
template <size_t Bytes>
struct word {
  typedef typename choose<
      Bytes == 8, uint64_t,
      typename choose<Bytes == 4, uint32_t, typename choose<Bytes == 2, uint16_t, uint8_t>::type>::type>::type type;
};

template <class T, class F>
HOST_PTX T bits_as(F value) {
  static_assert(sizeof(T) == sizeof(F), "a type of another size");
  T result;
  memcpy(&result, &value, sizeof result);
  return result;
}

struct f16 {
  uint16_t bits;
};
struct bf16 {
  uint16_t bits;
};
struct tf32 {
  uint32_t bits;
};
struct e4m3 {
  uint8_t bits;
};
struct e5m2 {
  uint8_t bits;
};
// Two numbers, the first in the lower bits.
template <class T>
struct pair {
  typedef T element;
  T lo, hi;
};
typedef pair<f16> f16x2;
typedef pair<bf16> bf16x2;
typedef pair<float> f32x2;
typedef pair<uint16_t> u16x2;
typedef pair<int16_t> s16x2;
typedef pair<e4m3> e4m3x2;
typedef pair<e5m2> e5m2x2;
struct e2m1x2 {
  uint8_t bits;
};

template <class T>
constexpr bool is_integer = false;
template <>
constexpr bool is_integer<uint8_t> = true;
template <>
constexpr bool is_integer<uint16_t> = true;
template <>
constexpr bool is_integer<uint32_t> = true;
template <>
constexpr bool is_integer<uint64_t> = true;
template <>
constexpr bool is_integer<int8_t> = true;
template <>
constexpr bool is_integer<int16_t> = true;
template <>
constexpr bool is_integer<int32_t> = true;
template <>
constexpr bool is_integer<int64_t> = true;
template <class T>
constexpr bool is_pair = false;
template <class T>
constexpr bool is_pair<pair<T>> = true;
template <class T>
constexpr bool is_signed() {
  if constexpr (is_integer<T>)
    return T(-1) < T(0);
  else
    return false;
}
template <class T>
using unsigned_of = typename word<sizeof(T)>::type;

// The lower bits of a register, as a type.
template <class T, class R>
HOST_PTX T get(R reg) {
  if constexpr (is_same<T, bool>) {
    return reg != 0;
  } else {
    static_assert(sizeof(T) <= sizeof(R), "a register of too few bits");
    return bits_as<T>((unsigned_of<T>)reg);
  }
}
// Numbers fill a wider register with their sign, or with zeros.
template <class R, class T>
HOST_PTX void put(R& reg, T value) {
  if constexpr (is_same<R, bool> || is_same<T, bool>)
    reg = (R)value;
  else if constexpr (is_signed<T>())
    reg = (R)(int64_t)value;
  else
    reg = (R)bits_as<unsigned_of<T>>(value);
}

// The operand of a statement as bits: numbers and pointers are converted to the register's size, others copied.
template <class R, class T>
HOST_PTX R take(const T& value) {
  if constexpr (sizeof(T) == sizeof(R)) {
    R reg;
    memcpy((void*)&reg, (const void*)&value, sizeof reg);
    return reg;
  } else if constexpr (__is_class(T) || __is_union(T)) {
    static_assert(sizeof(T) <= sizeof(R), "an operand of too many bits");
    R reg = 0;
    memcpy((void*)&reg, (const void*)&value, sizeof value);
    return reg;
  } else {
    return (R)value;
  }
}
// An array is its address.
template <class R, class T, size_t N>
HOST_PTX R take(T (&value)[N]) {
  return (R)(uintptr_t)value;
}
template <class T, class R>
HOST_PTX void give(T& target, R reg) {
  if constexpr (sizeof(T) == sizeof(R)) {
    memcpy((void*)&target, (const void*)&reg, sizeof target);
  } else if constexpr (__is_class(T) || __is_union(T)) {
    static_assert(sizeof(T) <= sizeof(R), "an operand of too many bits");
    memcpy((void*)&target, (const void*)&reg, sizeof target);
  } else {
    target = (T)reg;
  }
}

}  // namespace host_ptx
