#include "host_cuda/thrust/iterators.h"
