#pragma once
#include "host_cuda/thrust/algorithms.h"
