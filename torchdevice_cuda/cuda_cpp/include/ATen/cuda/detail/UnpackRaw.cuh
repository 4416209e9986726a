#include <ATen/cuda/PhiloxUtils.cuh>
