#include "host_cuda/thrust/policies.h"
