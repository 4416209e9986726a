// All that translated assembly calls, but for what needs threads.
#pragma once
#include "host_ptx/compare.h"
#include "host_ptx/convert.h"
#include "host_ptx/floats.h"
#include "host_ptx/integers.h"
#include "host_ptx/memory.h"
#include "host_ptx/video.h"
