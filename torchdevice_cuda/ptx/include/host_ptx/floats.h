// Arithmetic of real numbers.
#pragma once
#include <fenv.h>

#include "host_ptx/formats.h"

namespace host_ptx {

struct Add {
  template <class F>
  F operator()(F a, F b) const {
    return a + b;
  }
};
struct Sub {
  template <class F>
  F operator()(F a, F b) const {
    return a - b;
  }
};
struct Mul {
  template <class F>
  F operator()(F a, F b) const {
    return a * b;
  }
};
struct Div {
  template <class F>
  F operator()(F a, F b) const {
    return a / b;
  }
};
struct Sqrt {
  float operator()(float a) const {
    return __builtin_sqrtf(a);
  }
  double operator()(double a) const {
    return __builtin_sqrt(a);
  }
};
struct Fma {
  float operator()(float a, float b, float c) const {
    return __builtin_fmaf(a, b, c);
  }
  double operator()(double a, double b, double c) const {
    return __builtin_fma(a, b, c);
  }
};

// Other roundings are the processor's. Operands and result are volatile: they stay between the two changes of its mode.
template <class F, class Op, class... A>
__attribute__((noinline, unused)) static F directed(Round round, Op op, A... given) {
  fesetround(round == RZ ? FE_TOWARDZERO : round == RM ? FE_DOWNWARD : FE_UPWARD);
  volatile F result = op(static_cast<F>(*const_cast<volatile A*>(&given))...);
  const F read = result;
  fesetround(FE_TONEAREST);
  return read;
}

template <bool SAT, class T>
HOST_PTX T saturate(T value) {
  if constexpr (!SAT) {
    return value;
  } else if constexpr (is_same<T, float> || is_same<T, double>) {
    return value > 0 ? (value < 1 ? value : T(1)) : T(0);
  } else {
    const double wide = decode(value);
    return wide > 0 ? (wide < 1 ? value : encode<T>(1, RN)) : T{0};
  }
}
// The result: NaN has one code, small numbers may be zero, and numbers may be limited.
template <class T, bool FTZ, bool SAT>
HOST_PTX T finish(T value) {
  if constexpr (!is_same<T, double>)
    if (is_nan(value)) value = make_nan<T>();
  return saturate<SAT>(flush_if<FTZ>(value));
}
// The code of NaN that a GPU gives where no operand of double is one; otherwise it keeps the operand's.
HOST_PTX double make_invalid() {
  return bits_as<double>((uint64_t)0xfff8000000000000u);
}

template <class T, Round R, bool FTZ, bool SAT, class Op, class... A>
HOST_PTX T apply(Op op, A... given) {
  T result;
  if constexpr (R == NEAR)
    result = op(flush_if<FTZ>(given)...);
  else if constexpr (R == RN)
    result = keep(op(flush_if<FTZ>(given)...));
  else
    result = directed<T>(R, op, flush_if<FTZ>(given)...);
  if constexpr (is_same<T, double>)
    if (is_nan(result) && !(is_nan(given) || ...)) result = make_invalid();
  return finish<T, FTZ, SAT>(result);
}

// Types of 16 bits are computed with as float, which rounds none of their sums and products twice.
template <class T, Round R, bool FTZ, bool SAT, class Op>
HOST_PTX T apply_two(Op op, T a, T b) {
  if constexpr (is_pair<T>) {
    typedef typename T::element E;
    return T{apply_two<E, R, FTZ, SAT>(op, a.lo, b.lo), apply_two<E, R, FTZ, SAT>(op, a.hi, b.hi)};
  } else if constexpr (is_same<T, float> || is_same<T, double>) {
    return apply<T, R, FTZ, SAT>(op, a, b);
  } else {
    const float wide = keep(op((float)decode(flush_if<FTZ>(a)), (float)decode(flush_if<FTZ>(b))));
    return finish<T, FTZ, SAT>(encode<T>(wide, RN));
  }
}
template <class T, Round R, bool FTZ, bool SAT>
HOST_PTX T add(T a, T b) {
  return apply_two<T, R, FTZ, SAT>(Add(), a, b);
}
template <class T, Round R, bool FTZ, bool SAT>
HOST_PTX T sub(T a, T b) {
  return apply_two<T, R, FTZ, SAT>(Sub(), a, b);
}
template <class T, Round R, bool FTZ, bool SAT>
HOST_PTX T mul(T a, T b) {
  return apply_two<T, R, FTZ, SAT>(Mul(), a, b);
}
template <class T, Round R, bool FTZ, bool SAT>
HOST_PTX T div(T a, T b) {
  return apply_two<T, R, FTZ, SAT>(Div(), a, b);
}

template <bool RELU, class T>
HOST_PTX T rectify(T value) {
  return RELU && is_minus(value) && !is_nan(value) ? T{0} : value;
}
template <class T, Round R, bool FTZ, bool SAT, bool RELU>
HOST_PTX T fma(T a, T b, T c) {
  if constexpr (is_pair<T>) {
    typedef typename T::element E;
    return T{fma<E, R, FTZ, SAT, RELU>(a.lo, b.lo, c.lo), fma<E, R, FTZ, SAT, RELU>(a.hi, b.hi, c.hi)};
  } else if constexpr (is_same<T, float> || is_same<T, double>) {
    return apply<T, R == NEAR ? RN : R, FTZ, SAT>(Fma(), a, b, c);
  } else {
    const double product = keep(decode(flush_if<FTZ>(a)) * decode(flush_if<FTZ>(b)));
    const T result = encode<T>(add_odd(product, decode(flush_if<FTZ>(c))), RN);
    return rectify<RELU>(finish<T, FTZ, SAT>(result));
  }
}

// Approximations of a GPU are computed as exactly as the host does.
template <bool FTZ>
HOST_PTX float div_full(float a, float b) {
  return apply<float, RN, FTZ, false>(Div(), a, b);
}
template <bool FTZ>
HOST_PTX float div_approx(float a, float b) {
  // The reciprocal of so large a number is zero.
  const uint32_t size = bits_as<uint32_t>(b) & 0x7fffffff;
  if (size > 0x7e800000 && size < 0x7f800000)
    return finish<float, FTZ, false>(flush_if<FTZ>(a) * set_sign(0.0f, is_minus(b)));
  return div_full<FTZ>(a, b);
}
template <class T, Round R, bool FTZ, bool SAT>
HOST_PTX T rcp(T a) {
  return apply<T, R, FTZ, SAT>(Div(), T(1), a);
}
// The upper half of a double's reciprocal.
HOST_PTX double rcp_high(double a) {
  const uint64_t high = bits_as<uint64_t>(a) & 0xffffffff00000000u;
  const double result = 1 / bits_as<double>(high & 0x7ff0000000000000u ? high : high & 0x8000000000000000u);
  if (is_nan(result)) return bits_as<double>((uint64_t)0x7fffffff00000000u);
  const uint64_t bits = bits_as<uint64_t>(result) & 0xffffffff00000000u;
  return bits_as<double>(bits & 0x7ff0000000000000u ? bits : bits & 0x8000000000000000u);
}
template <class T, Round R, bool FTZ, bool SAT>
HOST_PTX T sqrt(T a) {
  return apply<T, R, FTZ, SAT>(Sqrt(), a);
}

// A function of double, rounded once.
template <class T, bool FTZ, class F>
HOST_PTX T by_double(F function, T a) {
  if constexpr (is_pair<T>) {
    typedef typename T::element E;
    return T{by_double<E, FTZ>(function, a.lo), by_double<E, FTZ>(function, a.hi)};
  } else if constexpr (is_same<T, double>) {
    const double result = function(a);
    return is_nan(result) && !is_nan(a) ? make_invalid() : result;
  } else if constexpr (is_same<T, float>) {
    return finish<float, FTZ, false>((float)function((double)flush_if<FTZ>(a)));
  } else {
    return finish<T, FTZ, false>(encode<T>(function(decode(flush_if<FTZ>(a))), RN));
  }
}
template <class T, bool FTZ>
HOST_PTX T rsqrt(T a) {
  return by_double<T, FTZ>([](double x) { return 1 / __builtin_sqrt(x); }, a);
}
template <class T, bool FTZ>
HOST_PTX T sin(T a) {
  return by_double<T, FTZ>([](double x) { return __builtin_sin(x); }, a);
}
template <class T, bool FTZ>
HOST_PTX T cos(T a) {
  return by_double<T, FTZ>([](double x) { return __builtin_cos(x); }, a);
}
template <class T, bool FTZ>
HOST_PTX T lg2(T a) {
  return by_double<T, FTZ>([](double x) { return __builtin_log2(x); }, a);
}
template <class T, bool FTZ>
HOST_PTX T ex2(T a) {
  return by_double<T, FTZ>([](double x) { return __builtin_exp2(x); }, a);
}
template <class T, bool FTZ>
HOST_PTX T tanh(T a) {
  return by_double<T, FTZ>([](double x) { return __builtin_tanh(x); }, a);
}

template <class T, bool FTZ>
HOST_PTX T make_sign(T a, bool is_negative) {
  if constexpr (!is_same<T, double>)
    if (is_nan(a)) return make_nan<T>();
  return set_sign(flush_if<FTZ>(a), is_negative);
}
template <class T, bool FTZ>
HOST_PTX T abs_float(T a) {
  if constexpr (is_pair<T>)
    return T{abs_float<typename T::element, FTZ>(a.lo), abs_float<typename T::element, FTZ>(a.hi)};
  else
    return make_sign<T, FTZ>(a, false);
}
template <class T, bool FTZ>
HOST_PTX T neg_float(T a) {
  if constexpr (is_pair<T>)
    return T{neg_float<typename T::element, FTZ>(a.lo), neg_float<typename T::element, FTZ>(a.hi)};
  else
    return make_sign<T, FTZ>(a, !is_minus(a));
}

// Zeros are ordered by their signs. The number is the result where only one of two is a number, or NaN.
template <class T, bool FTZ, bool NAN_WINS, bool XORSIGN, bool IS_MAX>
HOST_PTX T choose_float(T a, T b) {
  if constexpr (is_pair<T>) {
    typedef typename T::element E;
    return T{
        choose_float<E, FTZ, NAN_WINS, XORSIGN, IS_MAX>(a.lo, b.lo),
        choose_float<E, FTZ, NAN_WINS, XORSIGN, IS_MAX>(a.hi, b.hi)};
  } else {
    a = flush_if<FTZ>(a), b = flush_if<FTZ>(b);
    const bool is_negative = is_minus(a) != is_minus(b);
    if (XORSIGN) a = set_sign(a, false), b = set_sign(b, false);
    T result;
    if (is_nan(a) || is_nan(b)) {
      const bool is_lost = NAN_WINS || (is_nan(a) && is_nan(b));
      result = is_lost ? make_nan<T>() : is_nan(a) ? b : a;
      if (is_lost) return result;
    } else {
      const double x = decode(a), y = decode(b);
      const bool is_first_less = x < y || (x == y && is_minus(a));
      result = is_first_less != IS_MAX ? a : b;
    }
    return XORSIGN ? set_sign(result, is_negative) : result;
  }
}
template <class T, bool FTZ, bool NAN_WINS, bool XORSIGN>
HOST_PTX T min_float(T a, T b) {
  return choose_float<T, FTZ, NAN_WINS, XORSIGN, false>(a, b);
}
template <class T, bool FTZ, bool NAN_WINS, bool XORSIGN>
HOST_PTX T max_float(T a, T b) {
  return choose_float<T, FTZ, NAN_WINS, XORSIGN, true>(a, b);
}

template <class T>
HOST_PTX T copysign(T a, T b) {
  return set_sign(b, is_minus(a));
}
template <class T>
HOST_PTX bool is_finite(T a) {
  return __builtin_fabs(decode(a)) < __builtin_inf();
}
template <class T>
HOST_PTX bool is_infinite(T a) {
  return !is_nan(a) && !is_finite(a);
}
template <class T>
HOST_PTX bool is_number(T a) {
  return !is_nan(a);
}
template <class T>
HOST_PTX bool is_notanumber(T a) {
  return is_nan(a);
}
template <class T>
HOST_PTX bool is_subnormal(T a) {
  const double least = is_same<T, float> ? 0x1p-126 : 0x1p-1022, size = __builtin_fabs(decode(a));
  return size > 0 && size < least;
}
template <class T>
HOST_PTX bool is_normal(T a) {
  return is_finite(a) && !is_subnormal(a);  // zeros are normal
}

}  // namespace host_ptx
