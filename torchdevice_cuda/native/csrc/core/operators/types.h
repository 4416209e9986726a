// Sets of element types, as bits.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

namespace hostdevice {

using Types = uint64_t;
static_assert(static_cast<int>(c10::ScalarType::NumOptions) <= 64);

template <class... T>
constexpr Types types_of(T... types) {
  return ((Types{1} << static_cast<int>(types)) | ... | Types{0});
}
constexpr bool holds(Types set, c10::ScalarType type) {
  return (set & types_of(type)) != 0;
}

inline constexpr Types kHalves = types_of(c10::ScalarType::Half, c10::ScalarType::BFloat16);
inline constexpr Types kFloats = types_of(c10::ScalarType::Float, c10::ScalarType::Double);
inline constexpr Types kComplexHalf = types_of(c10::ScalarType::ComplexHalf);
inline constexpr Types kComplex = types_of(c10::ScalarType::ComplexFloat, c10::ScalarType::ComplexDouble);
inline constexpr Types kBool = types_of(c10::ScalarType::Bool);
inline constexpr Types kIntegers = types_of(
    c10::ScalarType::Long, c10::ScalarType::Int, c10::ScalarType::Short, c10::ScalarType::Char, c10::ScalarType::Byte);

inline constexpr Types kByte = types_of(c10::ScalarType::Byte);
inline constexpr Types kLong = types_of(c10::ScalarType::Long);
inline constexpr Types kFloat = types_of(c10::ScalarType::Float);
inline constexpr Types kWideUnsigned =
    types_of(c10::ScalarType::UInt16, c10::ScalarType::UInt32, c10::ScalarType::UInt64);
inline constexpr Types kHalf = types_of(c10::ScalarType::Half);
// Floating-point types of eight bits.
inline constexpr Types kEighths = types_of(c10::ScalarType::Float8_e4m3fn, c10::ScalarType::Float8_e5m2);

}  // namespace hostdevice
