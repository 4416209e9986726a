// Kernels with inline PTX, as programs write it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// ------------------------------------------------------------- one thread
__device__ __forceinline__ void wide_add(unsigned (&r)[3], const unsigned (&a)[3], const unsigned (&b)[3]) {
  // The carry goes from statement to statement.
  asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(r[0]) : "r"(a[0]), "r"(b[0]));
  asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(r[1]) : "r"(a[1]), "r"(b[1]));
  asm volatile("addc.u32 %0, %1, %2;" : "=r"(r[2]) : "r"(a[2]), "r"(b[2]));
}
template <typename T>
__device__ T loaded(const T* p) {
  T value;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(value) : "l"(p));
  return value;
}
extern "C" __global__ void single(const float* x, const unsigned* words, float* o, unsigned* w, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) asm volatile("exit;");
  float y = loaded(x + i);
  asm("fma.rn.f32 %0, %0, %1, %2;" : "+f"(y) : "f"(2.0f), "f"(0.5));
  if (i % 2)
    asm("neg.f32 %0, %0;" : "+f"(y));
  else
    asm volatile("");
  o[i] = y;
  unsigned r[3], a[3] = {words[i], 0xffffffffu, 1}, b[3] = {words[i], 0, 2};
  wide_add(r, a, b);
  unsigned cc = r[1];
  asm("add.u32 %0, %1, %2;\n\t"
      "xor.b32 %0, %0, 1;"
      : "=r"(cc)
      : "0"(cc), "n"(4));
  short low;
  asm("{ .reg .b16 t; mov.b32 {%0, t}, %1; }" : "=h"(low) : "r"(words[i]));
  unsigned halves;
  asm("vadd.u32.u32.u32 %0.h1, %1.h1, %1.h0, %2;" : "=r"(halves) : "r"(words[i]), "r"(int(low) & 0xffff));
  w[4 * i] = r[0];
  w[4 * i + 1] = cc;
  w[4 * i + 2] = r[2];
  w[4 * i + 3] = halves;
}

extern "C" __global__ void nans(const double* x, long long* o) {
  int r;
  asm("cvt.rzi.s32.f64 %0, %1;" : "=r"(r) : "d"(x[0]));
  o[0] = r;
  o[1] = __double2int_rz(x[0]);
  o[2] = __float2int_rz((float)x[0]);
  o[3] = __float2ll_rz((float)x[0]);
  o[4] = __double2uint_rn(x[0]);
}

// ------------------------------------------------------------- a warp
extern "C" __global__ void lanes(const unsigned* in, unsigned* out) {
  const unsigned x = in[threadIdx.x];
  unsigned r, at = 0;
#define PUT(v) out[64 * at++ + threadIdx.x] = (v);
#define SHFL(mode, b, c)                                                       \
  asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %1, " b ", " c    \
               ", 0xffffffff; @!p add.u32 %0, %0, 1000; }" : "=r"(r) : "r"(x)); \
  PUT(r)
  SHFL("up", "3", "0")
  SHFL("down", "5", "0x181f")
  SHFL("bfly", "9", "31")
  SHFL("idx", "5", "0x181f")
  asm volatile("{ .reg .pred p; setp.gt.u32 p, %1, 50; vote.sync.ballot.b32 %0, p, 0xffffffff; }" : "=r"(r) : "r"(x));
  PUT(r)
  asm volatile("{ .reg .pred p, q; setp.gt.u32 p, %1, 50; vote.sync.any.pred q, !p, -1; selp.u32 %0, 1, 0, q; }"
               : "=r"(r)
               : "r"(x));
  PUT(r)
  asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x % 3));
  PUT(r)
  asm volatile("redux.sync.add.u32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(x));
  PUT(r)
  asm volatile("redux.sync.min.s32 %0, %1, 0xffffffff;" : "=r"(r) : "r"(-(int)x));
  PUT(r)
  asm volatile("{ .reg .pred p; elect.sync %0|p, 0xffffffff; @p add.u32 %0, %0, 100; }" : "=r"(r));
  PUT(r)
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(r));
  PUT(r)
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(r));
  PUT(r)
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(r));
  PUT(r)
  asm volatile("{ .reg .u32 t; mov.u32 %0, %%tid.y; mov.u32 t, %%ntid.x; mad.lo.u32 %0, %0, 100, t; }" : "=r"(r));
  PUT(r)
}

// ------------------------------------------------------------- a block
extern "C" __global__ void block(const float* in, float* out) {
  extern __shared__ float4 dynamic[];
  __shared__ alignas(16) float fixed[128];
  const unsigned i = threadIdx.x;
  const unsigned to = (unsigned)__cvta_generic_to_shared(dynamic + i);
  const int bytes = i < 4 ? 8 : 16;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(in + 4 * i), "r"(bytes));
  // With a hint, a cache policy is last.
  asm volatile(
      "{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 1.0;\n"
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%2], 16, p;\n"
      "cp.async.cg.shared.global.L2::cache_hint.L2::128B [%1], [%2], 16, %3, p; }\n" ::"r"(to + 512),
      "r"(to + 1024), "l"(in + 4 * i), "r"(bytes));
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;\n" ::: "memory");
  unsigned a;
  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(fixed + i));
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(a), "f"(in[i] + 1) : "memory");
  asm volatile("bar.sync 0;");
  float2 pair;
  const unsigned from = (unsigned)__cvta_generic_to_shared(dynamic) + 16 * (31 - i);
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2+4];" : "=f"(pair.x), "=f"(pair.y) : "r"(from));
  unsigned count, spaces;
  asm volatile("{ .reg .pred p; setp.gt.f32 p, %1, 0f40A00000; bar.red.popc.u32 %0, 0, p; }" : "=r"(count) : "f"(in[i]));
  asm volatile("{ .reg .pred p, q; isspacep.shared p, %1; isspacep.global q, %2; selp.u32 %0, 1, 0, p; @q add.u32 %0, %0, 2; }"
               : "=r"(spaces)
               : "l"(fixed + 3), "l"(in));
  asm volatile("atom.shared.add.f32 %0, [%1], %2;" : "=f"(out[128 + i]) : "r"(a), "f"(0.25f));
  out[i] = pair.x;
  out[32 + i] = pair.y;
  out[64 + i] = fixed[31 - i];
  out[96 + i] = (float)(count * 10 + spaces);
  out[160 + i] = dynamic[32 + i].w;
  out[192 + i] = dynamic[64 + i].w;
}

// ------------------------------------------------------------- matrices
extern "C" __global__ void matrices(const unsigned short* in, unsigned short* out) {
  __shared__ alignas(16) unsigned short s[512];
  const unsigned i = threadIdx.x;
  for (int k = 0; k < 8; k++) s[8 * i + k] = in[8 * i + k];
  __syncwarp();
  const unsigned a = (unsigned)__cvta_generic_to_shared(s + 8 * i);
  unsigned d[4], t[2], m;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(a));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(t[0]), "=r"(t[1]) : "r"(i < 16 ? a : 0));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(m) : "r"(d[0]));
  unsigned* words = (unsigned*)out;
  for (int k = 0; k < 4; k++) words[32 * k + i] = d[k];
  words[128 + i] = t[0];
  words[160 + i] = t[1];
  words[192 + i] = m;
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(i < 16 ? a : 0), "r"(t[0]), "r"(t[1]) : "memory");
  __syncwarp();
  words[224 + i] = ((unsigned*)s)[i];
  words[256 + i] = ((unsigned*)s)[32 + i];
}

// ------------------------------------------------------------- products
__device__ unsigned code(float v, __half*) { return __half_as_ushort(__float2half(v)); }
__device__ unsigned code(float v, __nv_bfloat16*) { return __bfloat16_as_ushort(__float2bfloat16(v)); }
__device__ unsigned code(float v, float*) { return __float_as_uint(v); }
__device__ unsigned code(float v, signed char*) { return (unsigned)(int)v & 255; }
__device__ unsigned code(float v, unsigned char*) {  // e4m3 of -3 to 3
  const unsigned sizes[4] = {0, 0x38, 0x40, 0x44};
  return sizes[(int)fabsf(v)] | (v < 0 ? 0x80 : 0);
}
// The fragments of the PTX ISA, chapter "Matrix Fragments for mma.m16n8k...".
template <typename T, int K, int NA, int NB>
__device__ void fragments(const float* a, const float* b, unsigned (&ra)[NA], unsigned (&rb)[NB]) {
  const int each = 4 / sizeof(T), group = threadIdx.x / 4, place = threadIdx.x % 4;
  for (int r = 0; r < NA; r++) ra[r] = 0;
  for (int r = 0; r < NB; r++) rb[r] = 0;
  for (int r = 0; r < NA; r++)
    for (int j = 0; j < each; j++) {
      const int row = group + 8 * (r % 2), column = place * each + j + r / 2 * 4 * each;
      ra[r] |= code(a[row * K + column], (T*)0) << (j * 8 * sizeof(T));
    }
  for (int r = 0; r < NB; r++)
    for (int j = 0; j < each; j++) {
      const int row = place * each + j + r * 4 * each;
      rb[r] |= code(b[row * 8 + group], (T*)0) << (j * 8 * sizeof(T));
    }
}
template <typename T>
__device__ void put(T (&c)[4], float* out) {
  const int group = threadIdx.x / 4, place = threadIdx.x % 4;
  for (int i = 0; i < 4; i++) out[(group + 8 * (i / 2)) * 8 + place * 2 + i % 2] = (float)c[i];
}
#define PRODUCT(shape, types, T, K, NA, NB, A, B)                                                          \
  {                                                                                                       \
    unsigned ra[NA], rb[NB];                                                                              \
    float c[4] = {1, 2, 3, 4};                                                                            \
    fragments<T, K>(a, b, ra, rb);                                                                        \
    asm volatile("mma.sync.aligned." shape ".row.col." types " {%0,%1,%2,%3}, " A ", " B ", {%0,%1,%2,%3};" \
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                         \
                 : "r"(ra[0]), "r"(ra[NA > 1]), "r"(ra[NA > 2 ? 2 : 0]), "r"(ra[NA > 3 ? 3 : 0]), "r"(rb[0]), "r"(rb[NB > 1])); \
    put(c, out + 128 * at++);                                                                             \
  }
extern "C" __global__ void products(const float* a, const float* b, float* out) {
  int at = 0;
  PRODUCT("m16n8k16", "f32.f16.f16.f32", __half, 16, 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
  PRODUCT("m16n8k8", "f32.f16.f16.f32", __half, 8, 2, 1, "{%4,%5}", "{%8}")
  PRODUCT("m16n8k16", "f32.bf16.bf16.f32", __nv_bfloat16, 16, 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
  PRODUCT("m16n8k8", "f32.tf32.tf32.f32", float, 8, 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
  PRODUCT("m16n8k4", "f32.tf32.tf32.f32", float, 4, 2, 1, "{%4,%5}", "{%8}")
  PRODUCT("m16n8k32", "f32.e4m3.e4m3.f32", unsigned char, 32, 4, 2, "{%4,%5,%6,%7}", "{%8,%9}")
  {
    unsigned ra[4], rb[2];
    int c[4] = {1, 2, 3, 4};
    fragments<signed char, 32>(a, b, ra, rb);
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    put(c, out + 128 * at++);
  }
  {
    unsigned ra[4], rb[2], c[2] = {0x40003c00, 0x44004200};
    fragments<__half, 16>(a, b, ra, rb);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
                 : "+r"(c[0]), "+r"(c[1])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    float sums[4];
    for (int i = 0; i < 4; i++) sums[i] = __half2float(__ushort_as_half((unsigned short)(c[i / 2] >> (i % 2 * 16))));
    put(sums, out + 128 * at++);
  }
  {
    const int group = threadIdx.x / 4, place = threadIdx.x % 4;
    double x = a[group * 4 + place], y = b[place * 8 + group], c[2] = {1, 2};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(x), "d"(y));
    for (int i = 0; i < 2; i++) out[128 * at + group * 8 + place * 2 + i] = (float)c[i];
  }
}

// ------------------------------------------------------------- wmma
template <typename T, typename S, int M, int N, int K, typename LA, typename LB>
__device__ void tile(const float* a, const float* b, float* out) {
  using E = typename wmma::fragment<wmma::matrix_a, M, N, K, T, LA>::storage_element_type;
  __shared__ E sa[M * K], sb[K * N];
  __shared__ S sc[M * N];
  for (int i = threadIdx.x; i < M * K; i += 32) sa[i] = (E)a[i];
  for (int i = threadIdx.x; i < K * N; i += 32) sb[i] = (E)b[i];
  for (int i = threadIdx.x; i < M * N; i += 32) sc[i] = (S)(float)(i % 5);
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, S> fc, fd;
  const bool is_row_a = std::is_same<LA, wmma::row_major>::value, is_row_b = std::is_same<LB, wmma::row_major>::value;
  wmma::load_matrix_sync(fa, sa, is_row_a ? K : M);
  wmma::load_matrix_sync(fb, sb, is_row_b ? N : K);
  wmma::load_matrix_sync(fc, sc, N, wmma::mem_row_major);
  wmma::fill_fragment(fd, (S)0.0f);
  for (int i = 0; i < fc.num_elements; i++) fc.x[i] = (S)(fc.x[i] + fc.x[i]);
  wmma::mma_sync(fd, fa, fb, fc);
  wmma::store_matrix_sync(sc, fd, M, wmma::mem_col_major);
  __syncwarp();
  for (int i = threadIdx.x; i < M * N; i += 32) out[i] = (float)sc[i];
}
extern "C" __global__ void tiles(const float* a, const float* b, float* out) {
  tile<__half, float, 16, 16, 16, wmma::row_major, wmma::row_major>(a, b, out);
  tile<__half, __half, 32, 8, 16, wmma::col_major, wmma::row_major>(a, b, out + 256);
  tile<__nv_bfloat16, float, 8, 32, 16, wmma::row_major, wmma::col_major>(a, b, out + 512);
  tile<wmma::precision::tf32, float, 16, 16, 8, wmma::row_major, wmma::row_major>(a, b, out + 768);
  tile<signed char, int, 16, 16, 16, wmma::col_major, wmma::col_major>(a, b, out + 1024);
  tile<double, double, 8, 8, 4, wmma::row_major, wmma::row_major>(a, b, out + 1280);
}
extern "C" __global__ void raw_tiles(const __half* a, const __half* b, float* out) {
  unsigned x[8], y[8];
  float c[8];
  asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
               : "l"(a), "r"(16));
  asm volatile("wmma.load.b.sync.aligned.col.m16n16k16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8];"
               : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]), "=r"(y[4]), "=r"(y[5]), "=r"(y[6]), "=r"(y[7])
               : "l"(b));
  asm volatile(
      "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11,%12,%13,%14,%15}, "
      "{%16,%17,%18,%19,%20,%21,%22,%23}, {%24,%24,%24,%24,%24,%24,%24,%24};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3]), "=f"(c[4]), "=f"(c[5]), "=f"(c[6]), "=f"(c[7])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]), "r"(y[0]), "r"(y[1]),
        "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]), "f"(1.0f));
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, 16;" ::"l"(out), "f"(c[0]),
               "f"(c[1]), "f"(c[2]), "f"(c[3]), "f"(c[4]), "f"(c[5]), "f"(c[6]), "f"(c[7])
               : "memory");
}
