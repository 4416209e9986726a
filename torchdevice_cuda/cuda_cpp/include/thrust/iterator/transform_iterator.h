#pragma once
#include "host_cuda/thrust/iterators.h"
