// What programs use of Thrust.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/functional.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/logical.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>
#include <thrust/unique.h>

#include "printing.h"

struct Even {
  __host__ __device__ bool operator()(int v) const { return v % 2 == 0; }
};
struct Square {
  __host__ __device__ int operator()(int v) const { return v * v; }
};
struct Sum {
  template <class T>
  __host__ __device__ int operator()(const T& pair) const { return thrust::get<0>(pair) + 10 * thrust::get<1>(pair); }
};
struct Add {
  int* to;
  __host__ __device__ void operator()(int v) const { to[v] += v; }
};
template <class T>
static void print(const char* name, const thrust::device_vector<T>& values, size_t n) {
  thrust::host_vector<T> home(values.begin(), values.begin() + n);
  print(name, std::vector<T>(home.begin(), home.end()));
}
static void thrust_algorithms() {
  constexpr int n = 400;
  const auto host = numbers<int>(n, 6, 90);
  const thrust::device_vector<int> in(host.begin(), host.end());
  thrust::device_vector<int> v = in, w(n), keys(n), flags(n);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const auto policy = thrust::cuda::par.on(stream);
  thrust::sort(v.begin(), v.end());
  print("sort", v, n);
  thrust::sort(thrust::device, v.begin(), v.end(), thrust::greater<int>());
  print("sort greater", v, n);
  keys = in;
  thrust::sequence(policy, w.begin(), w.end(), 5, 3);
  thrust::stable_sort_by_key(keys.begin(), keys.end(), w.begin());
  print("stable_sort_by_key", w, n);
  const auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), w.begin(), v.begin(), flags.begin());
  print("reduce_by_key keys", v, ends.first - v.begin());
  print("reduce_by_key sums", flags, ends.second - flags.begin());
  const auto last = thrust::unique(keys.begin(), keys.end());
  print("unique", keys, last - keys.begin());
  v = in;
  thrust::lower_bound(keys.begin(), last, v.begin(), v.end(), w.begin());
  print("lower_bound", w, n);
  thrust::upper_bound(keys.begin(), last, v.begin(), v.end(), w.begin());
  print("upper_bound", w, n);
  const int* raw = thrust::raw_pointer_cast(in.data());
  const auto first = thrust::device_pointer_cast(raw);
  std::vector<int> said = {
      thrust::reduce(first, first + n),
      thrust::reduce(policy, first, first + n, -100, thrust::maximum<int>()),
      thrust::transform_reduce(first, first + n, Square(), 7, thrust::plus<int>()),
      thrust::inner_product(first, first + n, in.begin(), 1),
      static_cast<int>(thrust::count(in.begin(), in.end(), 3)),
      static_cast<int>(thrust::count_if(in.begin(), in.end(), Even())),
      static_cast<int>(thrust::min_element(in.begin(), in.end()) - in.begin()),
      static_cast<int>(thrust::max_element(in.begin(), in.end()) - in.begin()),
      static_cast<int>(thrust::find(in.begin(), in.end(), host[100]) - in.begin()),
      thrust::any_of(in.begin(), in.end(), Even()),
      thrust::all_of(in.begin(), in.end(), Even()),
      *first,
      first[17],
      in[18]};
  print("numbers", said);
  thrust::transform(in.begin(), in.end(), w.begin(), Square());
  print("transform", w, n);
  thrust::transform(in.begin(), in.end(), w.begin(), v.begin(), thrust::minus<int>());
  print("transform two", v, n);
  thrust::inclusive_scan(in.begin(), in.end(), v.begin());
  print("inclusive_scan", v, n);
  thrust::exclusive_scan(policy, in.begin(), in.end(), v.begin(), 4);
  print("exclusive_scan", v, n);
  thrust::exclusive_scan(in.begin(), in.end(), v.begin(), -50, thrust::maximum<int>());
  print("exclusive_scan maximum", v, n);
  thrust::adjacent_difference(in.begin(), in.end(), v.begin());
  print("adjacent_difference", v, n);
  const auto even = thrust::copy_if(in.begin(), in.end(), v.begin(), Even());
  print("copy_if", v, even - v.begin());
  v = in;
  print("remove_if", v, thrust::remove_if(v.begin(), v.end(), Even()) - v.begin());
  v = in;
  print("stable_partition", v, (thrust::stable_partition(v.begin(), v.end(), Even()), n));
  thrust::replace_if(v.begin(), v.end(), Even(), -1);
  thrust::fill(v.begin(), v.begin() + 9, 8);
  thrust::fill_n(v.begin() + 9, 3, 6);
  print("replace_if and fill", v, 60);
  thrust::sequence(keys.begin(), keys.end());
  thrust::sort(keys.begin(), keys.end(), thrust::greater<int>());
  thrust::gather(keys.begin(), keys.end(), in.begin(), v.begin());
  print("gather", v, n);
  thrust::scatter(in.begin(), in.end(), keys.begin(), v.begin());
  print("scatter", v, n);
  const thrust::counting_iterator<int> count(3);
  thrust::transform(count, count + n, thrust::make_constant_iterator(2), v.begin(), thrust::multiplies<int>());
  print("counting and constant", v, n);
  const auto squares = thrust::make_transform_iterator(in.begin(), Square());
  thrust::copy(squares, squares + n, v.begin());
  print("transform_iterator", v, n);
  const auto pairs = thrust::make_zip_iterator(thrust::make_tuple(in.begin(), w.begin()));
  thrust::transform(pairs, pairs + n, v.begin(), Sum());
  print("zip_iterator", v, n);
  const auto turned = thrust::make_permutation_iterator(in.begin(), keys.begin());
  thrust::copy(turned, turned + n, v.begin());
  print("permutation_iterator", v, n);
  thrust::fill(v.begin(), v.end(), 0);
  thrust::for_each(count, count + 50, Add{thrust::raw_pointer_cast(v.data())});
  print("for_each", v, 60);
  v.resize(3);
  v.push_back(11);
  v[1] = v[3] + 1;
  print("vector", v, v.size());
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  thrust_algorithms();
  CHECK(cudaDeviceSynchronize());
}
