#pragma once
#include "cub/thread/thread_reduce.cuh"
