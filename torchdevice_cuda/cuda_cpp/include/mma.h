// nvcuda::wmma. The elements of a fragment are a warp's own: a program may change each alike.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#ifdef HOST_CUDA_TRANSLATED
#include "host_cuda/tiles.h"

namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
namespace precision {
struct tf32;
}
enum layout_t { mem_row_major, mem_col_major };

// What a fragment stores, how many elements of a 16x16 tile each lane has, and what they are computed with.
template <class T>
struct Stored {
  using type = T;
  using wide = float;
  static constexpr int times = std::is_same<T, __half>::value ? 2 : 1;
  static float read(T value) {
    return static_cast<float>(value);
  }
};
template <>
struct Stored<precision::tf32> {
  using type = float;
  using wide = float;
  static constexpr int times = 1;
  static float read(float value) {
    return static_cast<float>(host_ptx::decode(host_ptx::bits_as<host_ptx::tf32>(value)));
  }
};
template <>
struct Stored<double> {
  using type = double;
  using wide = double;
  static constexpr int times = 1;
  static double read(double value) {
    return value;
  }
};
template <class T>
struct StoredByte {
  using type = T;
  using wide = int32_t;
  static constexpr int times = 1;
  static int32_t read(T value) {
    return value;
  }
};
template <>
struct Stored<signed char> : StoredByte<signed char> {};
template <>
struct Stored<unsigned char> : StoredByte<unsigned char> {};

template <class Use>
constexpr char kWhich = 'c';
template <>
constexpr char kWhich<matrix_a> = 'a';
template <>
constexpr char kWhich<matrix_b> = 'b';

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  using element_type = T;
  using storage_element_type = typename Stored<T>::type;
  using Tile = host_cuda::Tile<kWhich<Use>, M, N, K>;
  // Of half precision, a lane has 16 elements of every tile.
  static constexpr int num_elements = kWhich<Use> != 'c' && Stored<T>::times == 2 ? 16 : Tile::size / 32;
  static constexpr int num_storage_elements = num_elements;
  storage_element_type x[num_elements];
};

template <class Use, int M, int N, int K, class T, class Layout, class V>
static inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const V& value) {
  for (auto& element : f.x) element = static_cast<typename Stored<T>::type>(value);
}
template <class F, class T>
static inline void host_cuda_load_fragment(F& f, const T* p, unsigned stride, bool is_row) {
  for (int i = 0; i < F::num_elements; ++i)
    f.x[i] = p[F::Tile::offset(F::Tile::index(F::num_elements, i), stride, is_row)];
}
template <class Use, int M, int N, int K, class T, class Layout>
static inline void load_matrix_sync(
    fragment<Use, M, N, K, T, Layout>& f, const typename Stored<T>::type* p, unsigned stride) {
  host_cuda_load_fragment(f, p, stride, std::is_same<Layout, row_major>::value);
}
template <int M, int N, int K, class T>
static inline void load_matrix_sync(
    fragment<accumulator, M, N, K, T>& f, const T* p, unsigned stride, layout_t layout) {
  host_cuda_load_fragment(f, p, stride, layout == mem_row_major);
}
template <int M, int N, int K, class T>
static inline void store_matrix_sync(
    T* p, const fragment<accumulator, M, N, K, T>& f, unsigned stride, layout_t layout) {
  using F = fragment<accumulator, M, N, K, T>;
  for (int i = 0; i < F::num_elements; ++i)
    p[F::Tile::offset(F::Tile::index(F::num_elements, i), stride, layout == mem_row_major)] = f.x[i];
}
template <int M, int N, int K, class A, class B, class LA, class LB, class D, class C>
static inline void mma_sync(
    fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, A, LA>& a,
    const fragment<matrix_b, M, N, K, B, LB>& b, const fragment<accumulator, M, N, K, C>& c, bool is_saturated = false,
    HOST_CUDA_HERE) {
  using FA = fragment<matrix_a, M, N, K, A, LA>;
  using FB = fragment<matrix_b, M, N, K, B, LB>;
  typename Stored<A>::wide of_a[FA::num_elements];
  typename Stored<B>::wide of_b[FB::num_elements];
  for (int i = 0; i < FA::num_elements; ++i) of_a[i] = Stored<A>::read(a.x[i]);
  for (int i = 0; i < FB::num_elements; ++i) of_b[i] = Stored<B>::read(b.x[i]);
  using Sum = typename std::conditional<std::is_same<D, int>::value, int64_t, double>::type;
  host_cuda::multiply_tiles<M, N, K>(
      of_a, of_b, {file, line}, [&](int i) { return static_cast<Sum>(c.x[i]); },
      [&](int i, Sum sum) {
        if constexpr (std::is_same<D, int>::value)
          d.x[i] = is_saturated ? host_ptx::limit(sum) : static_cast<int>(sum);
        else if constexpr (std::is_same<D, __half>::value)
          d.x[i] = __ushort_as_half(host_ptx::encode<host_ptx::f16>(sum, host_ptx::RN).bits);
        else
          d.x[i] = host_cuda::cut_off<D>(sum);
      });
}
static inline float __float_to_tf32(float x) {
  return host_ptx::bits_as<float>(
      host_ptx::convert<host_ptx::tf32, float, host_ptx::RNA, false, false, false, false>(x).bits);
}

}  // namespace wmma
}  // namespace nvcuda
#endif
