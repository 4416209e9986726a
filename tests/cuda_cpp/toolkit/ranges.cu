// Iterators of Thrust that are made of others: the end of a range is often made of the others' ends.
#include <thrust/copy.h>
#include <thrust/device_ptr.h>
#include <thrust/functional.h>
#include <thrust/iterator/permutation_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <cstdio>

int main() {
  unsigned keys[] = {3, 1, 2, 0, 1}, values[] = {0, 1, 2, 3, 4}, places[] = {4, 0, 2};
  thrust::device_ptr<unsigned> k(keys), v(values), p(places);
  const auto first = thrust::make_zip_iterator(thrust::make_tuple(k, v));
  const auto last = thrust::make_zip_iterator(thrust::make_tuple(k + 5, v + 5));
  printf("%td %d %d %d\n", last - first, first == last, first < last, first + 5 == last);
  thrust::sort(first, last);
  for (int i = 0; i < 5; ++i) printf("%u:%u ", keys[i], values[i]);
  const thrust::negate<int> negate;
  printf(
      "\n%d %u\n",
      thrust::reduce(thrust::make_transform_iterator(k, negate), thrust::make_transform_iterator(k + 5, negate)),
      thrust::reduce(thrust::make_permutation_iterator(v, p), thrust::make_permutation_iterator(v, p + 3)));
}
