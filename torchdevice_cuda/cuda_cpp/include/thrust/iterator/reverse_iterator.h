#pragma once
#include <iterator>

#include "host_cuda/thrust/iterators.h"

namespace thrust {

template <class It>
using reverse_iterator = std::reverse_iterator<It>;
template <class It>
reverse_iterator<It> make_reverse_iterator(It it) {
  return reverse_iterator<It>(it);
}

}  // namespace thrust
