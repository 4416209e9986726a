#pragma once
#include <ATen/Context.h>
#include <ATen/core/ATenGeneral.h>
#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDAFunctions.h>
