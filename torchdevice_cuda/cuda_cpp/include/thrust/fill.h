#include "host_cuda/thrust/algorithms.h"
