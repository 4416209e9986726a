// All that a compiled kernel uses, apart from functions of libdevice that few kernels use.
#pragma once
#include "arithmetic.h"
#include "dot.h"
#include "functions.h"
#include "grid.h"
#include "memory.h"
#include "types.h"
#ifdef TTC_COUNTED
#include "counts.h"
#endif
#ifdef TTC_SANITIZED
#include "checks.h"
#endif
