#pragma once
#include <ATen/cuda/PhiloxUtils.cuh>
