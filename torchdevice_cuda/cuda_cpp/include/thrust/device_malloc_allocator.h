#include "host_cuda/thrust/vectors.h"
