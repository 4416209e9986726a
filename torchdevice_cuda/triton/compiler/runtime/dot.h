// Products of matrices: blocks of the result stay in registers.
#pragma once
#include "types.h"

#if defined(__AVX512F__)
#define TTC_VECTOR 64
#elif defined(__AVX__)
#define TTC_VECTOR 32
#else
#define TTC_VECTOR 16
#endif
typedef float floats __attribute__((vector_size(TTC_VECTOR), aligned(4), may_alias));
constexpr int LANES = TTC_VECTOR / 4;

// ROWS x (COLUMNS vectors) of C += A * B. A lies column by column: [K][M]; B and C row by row.
template <int M, int N, int K, int ROWS, int COLUMNS>
TTC_INLINE void multiply_block(const float* __restrict a, const float* __restrict b, float* __restrict c) {
  floats sum[ROWS][COLUMNS];
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < COLUMNS; v++) sum[r][v] = *(const floats*)(c + r * N + v * LANES);
  for (int k = 0; k < K; k++) {
    floats row[COLUMNS];
    for (int v = 0; v < COLUMNS; v++) row[v] = *(const floats*)(b + k * N + v * LANES);
    for (int r = 0; r < ROWS; r++)
      for (int v = 0; v < COLUMNS; v++) sum[r][v] += a[k * M + r] * row[v];
  }
  for (int r = 0; r < ROWS; r++)
    for (int v = 0; v < COLUMNS; v++) *(floats*)(c + r * N + v * LANES) = sum[r][v];
}
template <int M, int N, int K, int ROWS, int COLUMNS>
__attribute__((noinline)) static void multiply_blocks(const float* a, const float* b, float* c) {
  for (int j = 0; j < N; j += COLUMNS * LANES)
    for (int i = 0; i < M; i += ROWS) multiply_block<M, N, K, ROWS, COLUMNS>(a + i, b + j, c + i * N + j);
}
template <int M, int N, int K>
TTC_INLINE void multiply(const float* a, const float* b, float* c) {
  constexpr int rows = M % 8 == 0 ? 8 : M % 4 == 0 ? 4 : M % 2 == 0 ? 2 : 1;
  if constexpr (N % (2 * LANES) == 0)
    multiply_blocks<M, N, K, rows, 2>(a, b, c);
  else if constexpr (N % LANES == 0)
    multiply_blocks<M, N, K, rows, 1>(a, b, c);
  else
    for (int i = 0; i < M; i++)
      for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++) c[i * N + j] += a[k * M + i] * b[k * N + j];
}
template <int M, int N, int K, class T, class R>
TTC_INLINE void multiply(const T* a, const T* b, R* c) {
  for (int i = 0; i < M; i++)
    for (int k = 0; k < K; k++)
      for (int j = 0; j < N; j++) c[i * N + j] += (R)a[k * M + i] * (R)b[k * N + j];
}
