// Kernels in the manner of benchmark suites and of CUDA's samples: stencils, dynamic programming, factorizations,
// reductions, scans. How their threads may run is in test_samples.py.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>

namespace cg = cooperative_groups;
#define FULL 0xffffffffu
#define SIDE 16

// Heat of a chip: several steps on a tile whose border shrinks.
extern "C" __global__ void hotspot(const float* power, const float* from, float* to, int steps, int rows, int columns) {
  __shared__ float now[SIDE][SIDE], next[SIDE][SIDE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int small = SIDE - 2 * steps;
  int y = small * blockIdx.y - steps + ty, x = small * blockIdx.x - steps + tx;
  int index = columns * y + x;
  bool inside = y >= 0 && y < rows && x >= 0 && x < columns;
  float mine = 0.0f;
  if (inside) {
    now[ty][tx] = from[index];
    mine = power[index];
  }
  __syncthreads();
  int up = max(ty - 1, 0), down = min(ty + 1, SIDE - 1), left = max(tx - 1, 0), right = min(tx + 1, SIDE - 1);
  if (y == 0) up = ty;
  if (y == rows - 1) down = ty;
  if (x == 0) left = tx;
  if (x == columns - 1) right = tx;
  bool computed = false;
  for (int i = 0; i < steps; i++) {
    computed = false;
    if (tx >= i + 1 && tx <= SIDE - 2 - i && ty >= i + 1 && ty <= SIDE - 2 - i && inside) {
      computed = true;
      next[ty][tx] = now[ty][tx] + 0.25f * (mine + now[down][tx] + now[up][tx] + now[ty][left] + now[ty][right] -
                                            4.0f * now[ty][tx]);
    }
    __syncthreads();
    if (i == steps - 1) break;
    if (computed) now[ty][tx] = next[ty][tx];
    __syncthreads();
  }
  if (computed) to[index] = next[ty][tx];
}

// The cheapest way through a grid, some rows at a time.
extern "C" __global__ void pathfinder(int rows, const int* wall, const int* source, int* results, int columns) {
  __shared__ int previous[64];
  __shared__ int result[64];
  int tx = threadIdx.x;
  int small = blockDim.x - rows * 2;
  int x = small * blockIdx.x - rows + tx;
  bool valid = x >= 0 && x <= columns - 1;
  int west = max(tx - 1, 0), east = min(tx + 1, (int)blockDim.x - 1);
  if (x <= 0) west = tx;
  if (x >= columns - 1) east = tx;
  if (valid) previous[tx] = source[x];
  __syncthreads();
  bool computed;
  for (int i = 0; i < rows; i++) {
    computed = false;
    if (tx >= i + 1 && tx <= (int)blockDim.x - i - 2 && valid) {
      computed = true;
      int shortest = min(min(previous[west], previous[tx]), previous[east]);
      result[tx] = shortest + wall[columns * i + x];
    }
    __syncthreads();
    if (i == rows - 1) break;
    if (computed) previous[tx] = result[tx];
    __syncthreads();
  }
  if (computed) results[x] = result[tx];
}

// A factorization of the block on the diagonal, without exchanges of rows.
extern "C" __global__ void lud_diagonal(float* m, int n) {
  __shared__ float shadow[SIDE][SIDE];
  for (int i = 0; i < SIDE; i++) shadow[i][threadIdx.x] = m[i * n + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < SIDE - 1; i++) {
    if (threadIdx.x > i) {
      for (int j = 0; j < i; j++) shadow[threadIdx.x][i] -= shadow[threadIdx.x][j] * shadow[j][i];
      shadow[threadIdx.x][i] /= shadow[i][i];
    }
    __syncthreads();
    if (threadIdx.x > i)
      for (int j = 0; j < i + 1; j++) shadow[i + 1][threadIdx.x] -= shadow[i + 1][j] * shadow[j][threadIdx.x];
    __syncthreads();
  }
  for (int i = 1; i < SIDE; i++) m[i * n + threadIdx.x] = shadow[i][threadIdx.x];
}

// Alignment of two sequences: diagonals of a tile, forwards and backwards.
__device__ __forceinline__ int greatest(int a, int b, int c) {
  return max(max(a, b), c);
}
extern "C" __global__ void needle(const int* similarity, int* scores, int width, int penalty) {
  __shared__ int table[SIDE + 1][SIDE + 1];
  __shared__ int reference[SIDE][SIDE];
  int tid = threadIdx.x;
  if (tid == 0) table[0][0] = scores[0];
  for (int y = 0; y < SIDE; y++) reference[y][tid] = similarity[(y + 1) * width + tid + 1];
  __syncthreads();
  table[tid + 1][0] = scores[(tid + 1) * width];
  table[0][tid + 1] = scores[tid + 1];
  __syncthreads();
  for (int m = 0; m < SIDE; m++) {
    if (tid <= m) {
      int x = tid + 1, y = m - tid + 1;
      table[y][x] =
          greatest(table[y - 1][x - 1] + reference[y - 1][x - 1], table[y][x - 1] - penalty, table[y - 1][x] - penalty);
    }
    __syncthreads();
  }
  for (int m = SIDE - 2; m >= 0; m--) {
    if (tid <= m) {
      int x = tid + SIDE - m, y = SIDE - tid;
      table[y][x] =
          greatest(table[y - 1][x - 1] + reference[y - 1][x - 1], table[y][x - 1] - penalty, table[y - 1][x] - penalty);
    }
    __syncthreads();
  }
  for (int y = 0; y < SIDE; y++) scores[(y + 1) * width + tid + 1] = table[y + 1][tid + 1];
}

// One step of a diffusion that keeps edges.
extern "C" __global__ void srad(const float* image, float* out, int columns, int rows, double speckle) {
  const float q0 = speckle;
  __shared__ float tile[SIDE][SIDE], coefficient[SIDE][SIDE];
  int bx = blockIdx.x, by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  int index = columns * SIDE * by + SIDE * bx + columns * ty + tx;
  tile[ty][tx] = image[index];
  __syncthreads();
  float centre = tile[ty][tx];
  float n = (ty ? tile[ty - 1][tx] : centre) - centre, s = (ty < SIDE - 1 ? tile[ty + 1][tx] : centre) - centre;
  float w = (tx ? tile[ty][tx - 1] : centre) - centre, e = (tx < SIDE - 1 ? tile[ty][tx + 1] : centre) - centre;
  float gradient = (n * n + s * s + w * w + e * e) / (centre * centre), laplace = (n + s + w + e) / centre;
  float number = 0.5f * gradient - laplace * laplace / 16.0f, divisor = 1 + 0.25f * laplace;
  float q = number / (divisor * divisor);
  divisor = (q - q0) / (q0 * (1 + q0));
  float c = 1.0f / (1.0f + divisor);
  if (c < 0) c = 0;
  else if (c > 1) c = 1;
  coefficient[ty][tx] = c;
  __syncthreads();
  float south = ty < SIDE - 1 ? coefficient[ty + 1][tx] : c, east = tx < SIDE - 1 ? coefficient[ty][tx + 1] : c;
  out[index] = centre + 0.125f * (c * n + south * s + c * w + east * e);
}

// Sums of a layer's products, by a tree whose depth is a logarithm.
extern "C" __global__ void backprop(const float* input, const float* weights, float* partial, int hidden) {
  int by = blockIdx.y, tx = threadIdx.x, ty = threadIdx.y;
  int index = hidden * SIDE * by + hidden * ty + tx;
  __shared__ float node[SIDE];
  __shared__ float matrix[SIDE][SIDE];
  if (tx == 0) node[ty] = input[SIDE * by + ty];
  __syncthreads();
  matrix[ty][tx] = weights[index];
  __syncthreads();
  matrix[ty][tx] = matrix[ty][tx] * node[ty];
  __syncthreads();
  for (int i = 1; i <= __log2f(SIDE); i++) {
    int power = 1 << i;
    if (ty % power == 0) matrix[ty][tx] = matrix[ty][tx] + matrix[ty + power / 2][tx];
    __syncthreads();
  }
  if (tx == 0) partial[by * hidden + ty] = matrix[0][ty];
}

// The nearest of some points, and how many there are of each.
extern "C" __global__ void kmeans(const float* x, const float* centres, int* labels, int* counts, int n, int k, int d) {
  extern __shared__ float held[];
  int* local = (int*)(held + k * d);
  for (int i = threadIdx.x; i < k * d; i += blockDim.x) held[i] = centres[i];
  if (threadIdx.x < k) local[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    int best = 0;
    float least = 1e30f;
    for (int c = 0; c < k; ++c) {
      float sum = 0;
      for (int j = 0; j < d; ++j) {
        const float difference = x[i * d + j] - held[c * d + j];
        sum += difference * difference;
      }
      if (sum < least) {
        least = sum;
        best = c;
      }
    }
    labels[i] = best;
    atomicAdd(&local[best], 1);
  }
  __syncthreads();
  if (threadIdx.x < k) atomicAdd(counts + threadIdx.x, local[threadIdx.x]);
}

// A reduction whose last steps are a warp's.
template <unsigned kThreads>
__device__ void reduce_by_blocks(const float* in, float* out, unsigned n) {
  extern __shared__ float held[];
  unsigned tid = threadIdx.x, i = blockIdx.x * (kThreads * 2) + tid, stride = kThreads * 2 * gridDim.x;
  float sum = 0;
  while (i < n) {
    sum += in[i];
    if (i + kThreads < n) sum += in[i + kThreads];
    i += stride;
  }
  held[tid] = sum;
  __syncthreads();
  if (kThreads >= 512) {
    if (tid < 256) held[tid] = sum = sum + held[tid + 256];
    __syncthreads();
  }
  if (kThreads >= 256) {
    if (tid < 128) held[tid] = sum = sum + held[tid + 128];
    __syncthreads();
  }
  if (kThreads >= 128) {
    if (tid < 64) held[tid] = sum = sum + held[tid + 64];
    __syncthreads();
  }
  if (tid < 32) {
    if (kThreads >= 64) sum += held[tid + 32];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(FULL, sum, offset);
  }
  if (tid == 0) out[blockIdx.x] = sum;
}
extern "C" __global__ void reduction(const float* in, float* out, unsigned n) {
  reduce_by_blocks<256>(in, out, n);
}

// The same with groups of threads.
extern "C" __global__ void reduction_groups(const float* in, float* out, int n) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  __shared__ float parts[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + block.thread_rank(); i < n; i += blockDim.x * gridDim.x) sum += in[i];
  sum = cg::reduce(tile, sum, cg::plus<float>());
  if (tile.thread_rank() == 0) parts[tile.meta_group_rank()] = sum;
  cg::sync(block);
  if (tile.meta_group_rank() == 0) {
    float total = block.thread_rank() < tile.meta_group_size() ? parts[tile.thread_rank()] : 0.0f;
    for (int offset = tile.size() / 2; offset > 0; offset /= 2) total += tile.shfl_down(total, offset);
    if (tile.thread_rank() == 0) out[blockIdx.x] = total;
  }
}

// Sums up to each element, up and down a tree.
extern "C" __global__ void scan(const float* in, float* out, int n) {
  extern __shared__ float tree[];
  int thid = threadIdx.x;
  int offset = 1;
  tree[2 * thid] = in[2 * thid];
  tree[2 * thid + 1] = in[2 * thid + 1];
  for (int d = n >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (thid < d) {
      int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
      tree[b] += tree[a];
    }
    offset *= 2;
  }
  if (thid == 0) tree[n - 1] = 0;
  for (int d = 1; d < n; d *= 2) {
    offset >>= 1;
    __syncthreads();
    if (thid < d) {
      int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
      float t = tree[a];
      tree[a] = tree[b];
      tree[b] += t;
    }
  }
  __syncthreads();
  out[2 * thid] = tree[2 * thid];
  out[2 * thid + 1] = tree[2 * thid + 1];
}

// Sums up to each element, by warps.
__device__ int scan_warp(int value, int lane) {
#pragma unroll
  for (int i = 1; i < 32; i *= 2) {
    int other = __shfl_up_sync(FULL, value, i);
    if (lane >= i) value += other;
  }
  return value;
}
extern "C" __global__ void scan_shuffles(const int* in, int* out, int n) {
  __shared__ int sums[32];
  const int id = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  int value = scan_warp(id < n ? in[id] : 0, lane);
  if (lane == 31) sums[warp] = value;
  __syncthreads();
  if (warp == 0) {
    int sum = lane < blockDim.x / 32 ? sums[lane] : 0;
    sums[lane] = scan_warp(sum, lane);
  }
  __syncthreads();
  if (warp > 0) value += sums[warp - 1];
  if (id < n) out[id] = value;
}

extern "C" __global__ void transpose(const float* in, float* out, int width, int height) {
  __shared__ float tile[SIDE][SIDE + 1];
  int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
  for (int i = 0; i < SIDE; i += 4)
    if (x < width && y + i < height) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * width + x];
  __syncthreads();
  x = blockIdx.y * SIDE + threadIdx.x;
  y = blockIdx.x * SIDE + threadIdx.y;
  for (int i = 0; i < SIDE; i += 4)
    if (x < height && y + i < width) out[(y + i) * height + x] = tile[threadIdx.x][threadIdx.y + i];
}

extern "C" __global__ void histogram(const unsigned char* data, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    if (local[i]) atomicAdd(&bins[i], local[i]);
}

// Products of vectors, several for each block.
extern "C" __global__ void scalar_products(const float* a, const float* b, float* out, int vectors, int n) {
  __shared__ float sums[128];
  for (int vector = blockIdx.x; vector < vectors; vector += gridDim.x) {
    const int base = n * vector, end = base + n;
    for (int i = threadIdx.x; i < 128; i += blockDim.x) {
      float sum = 0;
      for (int at = base + i; at < end; at += 128) sum += a[at] * b[at];
      sums[i] = sum;
    }
    for (int stride = 128 / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      for (int i = threadIdx.x; i < stride; i += blockDim.x) sums[i] += sums[stride + i];
    }
    if (threadIdx.x == 0) out[vector] = sums[0];
    __syncthreads();
  }
}

// A row's convolution, with a halo that neighbours share.
__constant__ float filter[9] = {0.05f, 0.09f, 0.12f, 0.15f, 0.18f, 0.15f, 0.12f, 0.09f, 0.05f};
extern "C" __global__ void convolution_rows(const float* in, float* out, int width, int height, int pitch) {
  __shared__ float data[4][SIDE * 4];
  const int x0 = (blockIdx.x * 2 - 1) * SIDE + threadIdx.x, y0 = blockIdx.y * 4 + threadIdx.y;
  in += y0 * pitch + x0;
  out += y0 * pitch + x0;
  for (int i = 1; i < 3; i++) data[threadIdx.y][threadIdx.x + i * SIDE] = in[i * SIDE];
  data[threadIdx.y][threadIdx.x] = x0 >= 0 ? in[0] : 0;
  data[threadIdx.y][threadIdx.x + 3 * SIDE] = width - x0 > 3 * SIDE ? in[3 * SIDE] : 0;
  __syncthreads();
  for (int i = 1; i < 3; i++) {
    float sum = 0;
    for (int j = -4; j <= 4; j++) sum += filter[4 - j] * data[threadIdx.y][threadIdx.x + i * SIDE + j];
    out[i * SIDE] = sum;
  }
}

// A sort by comparisons that are the same for all data.
__device__ inline void order(int& a, int& b, bool up) {
  if ((a > b) == up) {
    int t = a;
    a = b;
    b = t;
  }
}
extern "C" __global__ void bitonic_sort(int* data, int n) {
  __shared__ int keys[256];
  int half = n / 2;
  keys[threadIdx.x] = data[threadIdx.x];
  keys[threadIdx.x + half] = data[threadIdx.x + half];
  for (int size = 2; size < n; size <<= 1) {
    bool up = (threadIdx.x & (size / 2)) != 0;
    for (int stride = size / 2; stride > 0; stride >>= 1) {
      __syncthreads();
      int at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      order(keys[at], keys[at + stride], !up);
    }
  }
  for (int stride = n / 2; stride > 0; stride >>= 1) {
    __syncthreads();
    int at = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
    order(keys[at], keys[at + stride], true);
  }
  __syncthreads();
  data[threadIdx.x] = keys[threadIdx.x];
  data[threadIdx.x + half] = keys[threadIdx.x + half];
}

// Forces between bodies, a tile at a time.
__device__ float3 interact(float4 a, float4 b, float3 force) {
  float3 r = make_float3(b.x - a.x, b.y - a.y, b.z - a.z);
  float squared = r.x * r.x + r.y * r.y + r.z * r.z + 0.01f;
  float scale = b.w / (squared * sqrtf(squared));
  force.x += r.x * scale;
  force.y += r.y * scale;
  force.z += r.z * scale;
  return force;
}
extern "C" __global__ void nbody(const float4* bodies, float* forces, int n) {
  extern __shared__ float4 held4[];
  int index = blockIdx.x * blockDim.x + threadIdx.x;
  float4 mine = bodies[index];
  float3 force = {0.0f, 0.0f, 0.0f};
  for (int tile = 0; tile < n / blockDim.x; ++tile) {
    held4[threadIdx.x] = bodies[tile * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int i = 0; i < blockDim.x; ++i) force = interact(mine, held4[i], force);
    __syncthreads();
  }
  forces[3 * index] = force.x;
  forces[3 * index + 1] = force.y;
  forces[3 * index + 2] = force.z;
}

// Each row's softmax, with CUB.
extern "C" __global__ void softmax(const float* in, float* out, int columns) {
  typedef cub::BlockReduce<float, 64> BlockReduce;
  __shared__ typename BlockReduce::TempStorage storage;
  __shared__ float shared_max, shared_sum;
  const float* row = in + blockIdx.x * columns;
  float top = -1e30f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, row[i]);
  const float block_max = BlockReduce(storage).Reduce(top, cub::Max());
  if (threadIdx.x == 0) shared_max = block_max;
  __syncthreads();
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(row[i] - shared_max);
  const auto block_sum = BlockReduce(storage).Sum(sum);
  if (threadIdx.x == 0) shared_sum = block_sum;
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[blockIdx.x * columns + i] = expf(row[i] - shared_max) / shared_sum;
}

// Means and variances of rows: a function that changes its arguments, after threads that have ended.
__device__ void sum_two(float& first, float& second, float* held) {
  for (int offset = 16; offset; offset >>= 1) {
    first += __shfl_xor_sync(FULL, first, offset);
    second += __shfl_xor_sync(FULL, second, offset);
  }
  const int warp = threadIdx.x / 32, warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) {
    held[warp] = first;
    held[warp + warps] = second;
  }
  __syncthreads();
  if (warp > 0) return;
  first = 0;
  second = 0;
  for (int i = 0; i < warps; ++i) {
    first += held[i];
    second += held[i + warps];
  }
}
extern "C" __global__ void moments(const float* in, float* out, int rows, int columns) {
  __shared__ float held[64];
  if (blockIdx.x >= rows) return;
  const float* const row = in + blockIdx.x * columns;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float value = row[i];
    sum += value;
    squares += value * value;
  }
  sum_two(sum, squares, held);
  if (threadIdx.x) return;
  out[2 * blockIdx.x] = sum / columns;
  out[2 * blockIdx.x + 1] = squares / columns;
}

// Labels of connected elements: until no thread changes one.
extern "C" __global__ void relax(int* labels, const int* linked, int n, int* rounds) {
  int count = 0;
  const int i = threadIdx.x;
  int changed;
  do {
    changed = 0;
    int mine = labels[i];
    if (i + 1 < n && linked[i]) mine = min(mine, labels[i + 1]);
    if (i > 0 && linked[i - 1]) mine = min(mine, labels[i - 1]);
    __syncthreads();
    if (mine != labels[i]) {
      labels[i] = mine;
      changed = 1;
    }
    ++count;
  } while (__syncthreads_or(changed));
  if (i == 0) *rounds = count;
}

// How many elements of a warp are as this one, in lanes that are not all there.
extern "C" __global__ void lanes(const int* in, int* out, int n) {
  int i = threadIdx.x, value = in[i];
  if (i >= n) return;
  int result = 0;
  if (value % 2 == 0 && threadIdx.x / 32 == 0) {
    result = 1;
  } else if (i >= 32) {
    int steps = i / 32;
    while (steps > 0) {
      unsigned votes = __ballot_sync(FULL, value > 3 * steps);
      result += __popc(votes);
      if (result > 1000) break;
      --steps;
    }
  }
  out[i] = result;
}

// A barrier in a loop that all threads go through as often, which only the data say.
extern "C" __global__ void strides(const float* in, float* out, int n) {
  __shared__ float held[64];
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    held[threadIdx.x] = in[i];
    __syncthreads();
    out[i] = held[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
  }
}
