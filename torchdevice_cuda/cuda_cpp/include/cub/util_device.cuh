#pragma once
#include "cub/config.cuh"
#include "cub/util_type.cuh"
