// Forty kernels as programs write them. The same file is compiled for a real GPU and for the host;
// `tests/recorded/kernels.py` has what each is launched with, `tests/data/kernels-h200.json` what a GPU answered.
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

#define FULL 0xffffffffu
#define LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)

extern "C" {

__global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void axpy_strided(const float* x, float* y, double alpha, int n) {
  LOOP(i, n) y[i] = (float)alpha * x[i] + y[i];
}

__global__ void guarded_return(const int* x, int* y, int n) {
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  y[i] = x[i] * x[i] - 3;
}

__global__ void parameters_are_own(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x += i;
  y += i;
  n -= i;
  if (n > 0) *y = *x * 2.0f + n;
}

__global__ void reduce_shared(const float* x, float* out, int n) {
  extern __shared__ float s[];
  unsigned t = threadIdx.x;
  unsigned i = blockIdx.x * blockDim.x + t;
  s[t] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (unsigned k = blockDim.x / 2; k > 0; k >>= 1) {
    if (t < k) s[t] += s[t + k];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
}  // extern "C"

template <typename T>
__device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(FULL, v, o);
  return v;
}
template <typename T>
__device__ T block_sum(T v) {
  static __shared__ T part[32];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  v = warp_sum(v);
  if (lane == 0) part[warp] = v;
  __syncthreads();
  v = threadIdx.x < blockDim.x / 32 ? part[lane] : T(0);
  if (warp == 0) v = warp_sum(v);
  __syncthreads();
  return v;
}

extern "C" {
__global__ void reduce_shuffle(const float* x, float* out, int n) {
  float v = 0;
  LOOP(i, n) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}

__global__ void reduce_double(const double* x, double* out, int n) {
  double v = 0;
  LOOP(i, n) v += x[i] * x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}

__global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < (n + 15) / 16; ++t) {
    int ac = t * 16 + threadIdx.x, br = t * 16 + threadIdx.y;
    sa[threadIdx.y][threadIdx.x] = row < n && ac < n ? a[row * n + ac] : 0.0f;
    sb[threadIdx.y][threadIdx.x] = br < n && col < n ? b[br * n + col] : 0.0f;
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += sa[threadIdx.y][k] * sb[k][threadIdx.x];
    __syncthreads();
  }
  if (row < n && col < n) c[row * n + col] = sum;
}

__global__ void histogram_global(const int* x, int* bins, int n) {
  LOOP(i, n) atomicAdd(&bins[x[i] & 15], 1);
}

__global__ void histogram_shared(const int* x, unsigned* bins, int n) {
  __shared__ unsigned local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  LOOP(i, n) atomicAdd(&local[x[i] & 15], 1u);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

__global__ void scan_inclusive(const int* x, int* y, int n) {
  extern __shared__ int buffer[];
  int t = threadIdx.x, in = 0, out = 1;
  buffer[t] = t < n ? x[t] : 0;
  __syncthreads();
  for (int d = 1; d < blockDim.x; d *= 2) {
    buffer[out * blockDim.x + t] = buffer[in * blockDim.x + t] + (t >= d ? buffer[in * blockDim.x + t - d] : 0);
    in = 1 - in;
    out = 1 - out;
    __syncthreads();
  }
  if (t < n) y[t] = buffer[in * blockDim.x + t];
}

__global__ void scan_warp(const int* x, int* y) {
  int v = x[threadIdx.x], lane = threadIdx.x & 31;
  for (int d = 1; d < 32; d <<= 1) {
    int other = __shfl_up_sync(FULL, v, d);
    if (lane >= d) v += other;
  }
  y[threadIdx.x] = v;
}

__global__ void stencil_1d(const float* x, float* y, int n) {
  __shared__ float tile[128 + 6];
  int g = blockIdx.x * blockDim.x + threadIdx.x, l = threadIdx.x + 3;
  tile[l] = g < n ? x[g] : 0.0f;
  if (threadIdx.x < 3) {
    tile[l - 3] = g >= 3 ? x[g - 3] : 0.0f;
    tile[l + 128] = g + 128 < n ? x[g + 128] : 0.0f;
  }
  __syncthreads();
  float sum = 0.0f;
  for (int o = -3; o <= 3; ++o) sum += tile[l + o];
  if (g < n) y[g] = sum;
}

__global__ void stencil_2d(const float* x, float* y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
  if (r >= h || c >= w) return;
  float centre = x[r * w + c];
  float up = r > 0 ? x[(r - 1) * w + c] : 0.0f, down = r + 1 < h ? x[(r + 1) * w + c] : 0.0f;
  float left = c > 0 ? x[r * w + c - 1] : 0.0f, right = c + 1 < w ? x[r * w + c + 1] : 0.0f;
  y[r * w + c] = 0.25f * (up + down + left + right) - centre;
}

__global__ void softmax_rows(const float* x, float* y, int columns) {
  __shared__ float shared_max, shared_sum;
  const float* row = x + blockIdx.x * columns;
  float m = -1e30f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) m = fmaxf(m, row[i]);
  for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(FULL, m, o));
  if (threadIdx.x == 0) shared_max = m;
  __syncthreads();
  float s = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) s += expf(row[i] - shared_max);
  for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(FULL, s, o);
  if (threadIdx.x == 0) shared_sum = s;
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) y[blockIdx.x * columns + i] = expf(row[i] - shared_max) / shared_sum;
}

__global__ void layer_norm(const float* x, const float* g, const float* b, float* y, int columns, double eps) {
  __shared__ float mean, scale;
  const float* row = x + blockIdx.x * columns;
  float s = 0.0f, q = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) s += row[i];
  s = block_sum(s);
  if (threadIdx.x == 0) mean = s / columns;
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) q += (row[i] - mean) * (row[i] - mean);
  q = block_sum(q);
  if (threadIdx.x == 0) scale = rsqrtf(q / columns + (float)eps);
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    y[blockIdx.x * columns + i] = (row[i] - mean) * scale * g[i] + b[i];
}

__global__ void gather_batched(const float* x, const long long* index, float* y, int rows, int columns, int picked) {
  int b = blockIdx.z;
  LOOP(i, picked* columns) {
    long long from = index[b * picked + i / columns];
    y[(b * picked) * columns + i] = x[(b * rows + from) * columns + i % columns];
  }
}

__global__ void scatter_add(const float* x, const long long* index, float* y, int n) {
  LOOP(i, n) atomicAdd(y + index[i], x[i]);
}

__global__ void transpose_tiled(const float* x, float* y, int rows, int columns) {
  __shared__ float tile[32][33];
  int c = blockIdx.x * 32 + threadIdx.x;
  for (int j = 0; j < 32; j += 8) {
    int r = blockIdx.y * 32 + threadIdx.y + j;
    if (r < rows && c < columns) tile[threadIdx.y + j][threadIdx.x] = x[r * columns + c];
  }
  __syncthreads();
  int r = blockIdx.y * 32 + threadIdx.x;
  for (int j = 0; j < 32; j += 8) {
    int k = blockIdx.x * 32 + threadIdx.y + j;
    if (r < rows && k < columns) y[k * rows + r] = tile[threadIdx.x][threadIdx.y + j];
  }
}

__global__ void half_axpy(const __half* x, __half* y, int n) {
  LOOP(i, n) y[i] = __hadd(__hmul(x[i], __float2half(1.5f)), y[i]);
}

__global__ void half2_fma(const __half2* x, __half2* y, int n) {
  LOOP(i, n) y[i] = __hfma2(x[i], __float2half2_rn(0.333f), y[i]);
}

__global__ void half_in_float(const __half* x, float* y, int n) {
  LOOP(i, n) y[i] = __half2float(x[i]) * 3.0f + (float)__hgt(x[i], __float2half(0.5f));
}

__global__ void bfloat_scale(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
  LOOP(i, n) y[i] = __float2bfloat16(__bfloat162float(x[i]) * 0.7f + 1.0f);
}

__global__ void votes(const int* x, unsigned* y) {
  int v = x[threadIdx.x];
  unsigned odd = __ballot_sync(FULL, v & 1);
  int any = __any_sync(FULL, v == 7), all = __all_sync(FULL, v >= 0);
  if ((threadIdx.x & 31) == 0) {
    y[threadIdx.x / 32 * 3] = odd;
    y[threadIdx.x / 32 * 3 + 1] = any;
    y[threadIdx.x / 32 * 3 + 2] = all + 2 * __popc(odd);
  }
}

__global__ void barrier_votes(const int* x, int* y) {
  int v = x[threadIdx.x];
  int count = __syncthreads_count(v > 50), every = __syncthreads_and(v >= 0), some = __syncthreads_or(v == 99);
  y[threadIdx.x] = count * 4 + every * 2 + some;
}

__global__ void shuffle_widths(const int* x, int* y) {
  int v = x[threadIdx.x];
  int a = __shfl_sync(FULL, v, 3, 8), b = __shfl_xor_sync(FULL, v, 5, 16), c = __shfl_down_sync(FULL, v, 2, 4);
  y[threadIdx.x] = a + 1000 * b + 1000000 * c;
}

__global__ void half_warps(const int* x, int* y) {
  int v = x[threadIdx.x], lane = threadIdx.x & 31;
  if (lane < 16) {
    for (int o = 8; o; o >>= 1) v += __shfl_xor_sync(0x0000ffffu, v, o);
  } else {
    for (int o = 8; o; o >>= 1) v = max(v, __shfl_xor_sync(0xffff0000u, v, o));
  }
  __syncwarp();
  y[threadIdx.x] = v;
}

__global__ void matched(const int* x, unsigned* y) {
  y[threadIdx.x] = __match_any_sync(FULL, x[threadIdx.x] & 3);
}

__global__ void atomics_integer(const int* x, int* y, int n) {
  LOOP(i, n) {
    atomicMax(&y[0], x[i]);
    atomicMin(&y[1], x[i]);
    atomicOr(&y[2], x[i]);
    atomicXor(&y[3], x[i]);
    atomicSub(&y[4], x[i]);
    atomicInc((unsigned*)&y[5], 6u);
  }
}

__global__ void atomic_by_cas(const double* x, double* y, int n) {
  LOOP(i, n) {
    unsigned long long* at = (unsigned long long*)y;
    unsigned long long old = *at, seen;
    do {
      seen = old;
      old = atomicCAS(at, seen, __double_as_longlong(fmax(__longlong_as_double(seen), x[i])));
    } while (old != seen);
  }
}

__global__ void tiles(const int* x, int* y) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  int v = x[block.thread_rank()];
  for (int o = tile.size() / 2; o > 0; o /= 2) v += tile.shfl_down(v, o);
  if (tile.thread_rank() == 0) y[block.thread_rank() / 8] = v;
  block.sync();
}

__global__ void vector_types(const float4* x, float4* y, int n) {
  LOOP(i, n) {
    float4 v = __ldg(&x[i]);
    y[i] = make_float4(v.w, v.z * 2.0f, v.y - v.x, fminf(v.x, v.w));
  }
}

__global__ void dynamic_two_arrays(const float* x, const int* k, float* y, int n) {
  extern __shared__ __align__(16) unsigned char memory[];
  float* values = reinterpret_cast<float*>(memory);
  int* keys = reinterpret_cast<int*>(memory + n * sizeof(float));
  int t = threadIdx.x;
  values[t] = x[t];
  keys[t] = k[t];
  __syncthreads();
  y[t] = values[keys[t]];
}

__constant__ float weights[4] = {0.5f, 0.25f, 0.125f, 2.0f};
__device__ int counter = 0;
__global__ void constants(const float* x, float* y, int n) {
  LOOP(i, n) y[i] = x[i] * weights[i & 3] + warpSize;
}

__global__ void last_block(const float* x, float* part, unsigned* ticket, float* out, int n) {
  __shared__ bool last;
  float v = 0;
  LOOP(i, n) v += x[i];
  v = block_sum(v);
  if (threadIdx.x == 0) {
    part[blockIdx.x] = v;
    __threadfence();
    last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < gridDim.x; ++i) total += part[i];
    *out = total;
  }
}

__global__ void bitonic(int* x, int n) {
  extern __shared__ int keys[];
  int t = threadIdx.x;
  keys[t] = x[t];
  __syncthreads();
  for (int k = 2; k <= n; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      int o = t ^ j;
      if (o > t) {
        bool up = (t & k) == 0;
        if ((keys[t] > keys[o]) == up) {
          int swapped = keys[t];
          keys[t] = keys[o];
          keys[o] = swapped;
        }
      }
      __syncthreads();
    }
  x[t] = keys[t];
}
}  // extern "C"

struct Square {
  __device__ float operator()(float v) const {
    return v * v;
  }
};
template <typename F, typename T, int Unroll>
__device__ void apply(const T* x, T* y, int n, F f) {
  int base = (blockIdx.x * blockDim.x + threadIdx.x) * Unroll;
#pragma unroll
  for (int k = 0; k < Unroll; ++k)
    if (base + k < n) y[base + k] = f(x[base + k]);
}

extern "C" {
__global__ void functor(const float* x, float* y, int n) {
  apply<Square, float, 4>(x, y, n, Square());
}

__global__ void lambda(const float* x, float* y, int n) {
  const float offset = 0.75f;
  auto f = [offset](float v) { return v < 0 ? -v : v + offset; };
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = f(x[i]);
}

__global__ void mathematics(const float* x, float* y, int n) {
  LOOP(i, n) {
    float v = x[i];
    y[i * 8] = sinf(v);
    y[i * 8 + 1] = __expf(v * 0.1f);
    y[i * 8 + 2] = powf(fabsf(v) + 1.0f, 0.7f);
    y[i * 8 + 3] = rsqrtf(fabsf(v) + 2.0f);
    y[i * 8 + 4] = erff(v);
    y[i * 8 + 5] = tanhf(v);
    y[i * 8 + 6] = floorf(v) + fmodf(v, 0.5f);
    y[i * 8 + 7] = log1pf(fabsf(v));
  }
}

__global__ void integers(const int* x, int* y, int n) {
  LOOP(i, n) {
    int v = x[i];
    y[i * 8] = __popc(v);
    y[i * 8 + 1] = __clz(v);
    y[i * 8 + 2] = __ffs(v);
    y[i * 8 + 3] = (int)__brev(v);
    y[i * 8 + 4] = __mulhi(v * 65537, 99999);
    y[i * 8 + 5] = min(v, 7) + max(v, 9);
    y[i * 8 + 6] = (int)__umulhi((unsigned)v * 77777u, 4000000000u);
    y[i * 8 + 7] = __float2int_rn(v * 0.5f) + __float2int_rd(v * -0.3f);
  }
}

__global__ void embedding_backward(const float* grad, const int* index, float* weight, int n, int width) {
  int column = threadIdx.x;
  for (int row = blockIdx.x; row < n; row += gridDim.x)
    if (column < width) atomicAdd(&weight[index[row] * width + column], grad[row * width + column]);
}

__global__ void mandelbrot(int* y, int w, int h) {
  int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
  if (px >= w || py >= h) return;
  double cx = -2.0 + 3.0 * px / w, cy = -1.0 + 2.0 * py / h, zx = 0, zy = 0;
  int k = 0;
  while (k < 64 && zx * zx + zy * zy < 4.0) {
    double t = zx * zx - zy * zy + cx;
    zy = 2.0 * zx * zy + cy;
    zx = t;
    ++k;
  }
  y[py * w + px] = k;
}
}
