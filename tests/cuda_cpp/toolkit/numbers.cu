// Pairs of 16 bits, directions of rounding, words of four bytes, inverse functions.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdio>

__global__ void compute(__half2* h, __nv_bfloat162* b, unsigned* u) {
  __half2 x = h[0];
  x += x;
  x = x * x - h[0] / h[1];
  h[2] = -x;
  ++x;
  h[3] = __hfma2_relu(x, x, x);
  atomicAdd(&h[4], x);
  b[2] = __float22bfloat162_rn(make_float2(1.5f, 2.5f)) + b[0];
  b[3] = __hmax2(b[0], b[1]);
  const __half2_raw raw = x;
  u[0] = __hge2_mask(h[0], h[1]);
  u[1] = __half_as_ushort(__float2half_rz(1.0009f));
  u[2] = __half_as_ushort(__float2half_ru(1.0001f));
  u[3] = __half_as_ushort(__float2half_rd(-1.0001f));
  u[4] = raw.x;
  u[5] = __vadd4(0x01ff0304u, 0x01010101u);
  u[6] = __vcmpgts2(0x00018000u, 0x0000ffffu);
  u[7] = __float_as_uint(__fadd_ru(1.0f, 1e-9f));
}

int main() {
  __half2 h[5];
  __nv_bfloat162 b[4];
  unsigned u[8] = {};
  for (auto& one : h) one = __floats2half2_rn(2, 3);
  for (auto& one : b) one = __floats2bfloat162_rn(1, 2);
  compute<<<1, 1>>>(h, b, u);
  for (int i = 2; i < 5; ++i) printf("%g %g\n", float(h[i].x), float(h[i].y));
  for (int i = 2; i < 4; ++i) printf("%g %g\n", float(b[i].x), float(b[i].y));
  for (unsigned one : u) printf("%x ", one);
  printf("\n%.6f %.6f %.6f\n", erfinv(0.3), normcdfinv(0.975), erfcinv(1e-10));
}
