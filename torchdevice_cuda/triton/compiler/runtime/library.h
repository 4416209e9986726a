// Functions of libdevice that few kernels use. All are computed in double precision.
#pragma once
#include "functions.h"

namespace library {
extern "C" {
double j0(double);
double j1(double);
double jn(int, double);
double y0(double);
double y1(double);
double yn(int, double);
}
constexpr double PI = 3.14159265358979323846, SQRT_PI = 1.77245385090551602730, SQRT_2 = 1.41421356237309504880;

// The sine or cosine of pi times x: exact where that is 0, 1 or -1.
static double sinpi(double x) {
  const double rest = __builtin_fmod(x, 2.0), quarter = __builtin_rint(rest * 2), angle = (rest - quarter / 2) * PI;
  const int turn = (int)quarter & 3;
  const double size = turn & 1 ? __builtin_cos(angle) : __builtin_sin(angle);
  return rest == 0 || __builtin_fabs(rest) == 1 ? __builtin_copysign(0.0, x) : turn & 2 ? -size : size;
}
static double cospi(double x) {
  const double rest = __builtin_fabs(__builtin_fmod(x, 2.0));
  return rest == 0.5 || rest == 1.5 ? 0.0 : sinpi(rest + 0.5);
}
static double rcbrt(double x) {
  return 1 / __builtin_cbrt(x);
}
static double rhypot(double x, double y) {
  return 1 / __builtin_hypot(x, y);
}
static double norm3d(double x, double y, double z) {
  return __builtin_hypot(__builtin_hypot(x, y), z);
}
static double norm4d(double x, double y, double z, double w) {
  return __builtin_hypot(__builtin_hypot(x, y), __builtin_hypot(z, w));
}
static double rnorm3d(double x, double y, double z) {
  return 1 / norm3d(x, y, z);
}
static double rnorm4d(double x, double y, double z, double w) {
  return 1 / norm4d(x, y, z, w);
}
// exp(x * x) * erfc(x).
static double erfcx(double x) {
  if (x < 25) {
    const double square = x * x, rest = __builtin_fma(x, x, -square);
    return __builtin_exp(square) * (1 + rest) * __builtin_erfc(x);
  }
  const double z = 1 / (2 * x * x);
  return (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (x * SQRT_PI);
}
// The x with erfc(x) = y, by Newton's method for the logarithm of erfc, which is nearly a parabola.
static double erfcinv(double y) {
  if (!(y > 0 && y < 2)) return y == 0 ? __builtin_inf() : y == 2 ? -__builtin_inf() : __builtin_nan("");
  if (y > 1) return -erfcinv(2 - y);
  const double wanted = __builtin_log(y);
  double x =
      y > 0.1 ? (1 - y) * SQRT_PI / 2 : __builtin_sqrt(-wanted - __builtin_log(SQRT_PI * __builtin_sqrt(-wanted)));
  for (int round = 0; round < 50; round++) {
    const double step = (__builtin_log(__builtin_erfc(x)) - wanted) * SQRT_PI / 2 * erfcx(x);
    x += step;
    if (!(__builtin_fabs(step) > 1e-16 * __builtin_fabs(x))) break;
  }
  return x;
}
static double erfinv(double y) {
  if (__builtin_fabs(y) > 0.5 || y != y) return y > 0 ? erfcinv(1 - y) : -erfcinv(1 + y);
  double x = y * SQRT_PI / 2;
  for (int round = 0; round < 50; round++) {
    const double step = (y - __builtin_erf(x)) * SQRT_PI / 2 * __builtin_exp(x * x);
    x += step;
    if (!(__builtin_fabs(step) > 1e-16 * __builtin_fabs(x))) break;
  }
  return x;
}
static double normcdf(double x) {
  return __builtin_erfc(-x / SQRT_2) / 2;
}
static double normcdfinv(double p) {
  return -SQRT_2 * erfcinv(2 * p);
}
// Modified Bessel functions of the first kind, by their series: all terms have one sign.
static double sum_bessel(double x, int order) {
  const double quarter = x * x / 4;
  double term = 1, sum = 1;
  for (int k = 1; k < 2000 && term > sum * 1e-17; k++) {
    term *= quarter / ((double)k * (k + order));
    sum += term;
  }
  return sum;
}
static double cyl_bessel_i0(double x) {
  return __builtin_fabs(x) > 720 ? __builtin_inf() : x != x ? x : sum_bessel(x, 0);
}
static double cyl_bessel_i1(double x) {
  return __builtin_fabs(x) > 720 ? __builtin_copysign(__builtin_inf(), x) : x != x ? x : x / 2 * sum_bessel(x, 1);
}
}  // namespace library
