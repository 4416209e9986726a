#pragma once
#include "host_cuda/thrust/policies.h"
