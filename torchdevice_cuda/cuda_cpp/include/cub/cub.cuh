// What of CUB is here. The rest is refused by the name of its header or of the class.
#pragma once

#include "cub/block/block_load.cuh"
#include "cub/block/block_radix_sort.cuh"
#include "cub/block/block_reduce.cuh"
#include "cub/block/block_scan.cuh"
#include "cub/block/block_store.cuh"
#include "cub/device/device_radix_sort.cuh"
#include "cub/device/device_reduce.cuh"
#include "cub/device/device_run_length_encode.cuh"
#include "cub/device/device_scan.cuh"
#include "cub/device/device_segmented_reduce.cuh"
#include "cub/device/device_select.cuh"
#include "cub/warp/warp_reduce.cuh"
#include "cub/warp/warp_scan.cuh"
