#include "host_cuda/thrust/functional.h"
