#pragma once
#include "host_cuda/thrust/functional.h"
