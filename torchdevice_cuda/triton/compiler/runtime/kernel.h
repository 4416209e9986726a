// All that a compiled kernel uses.
#pragma once
#include "arithmetic.h"
#include "dot.h"
#include "functions.h"
#include "grid.h"
#include "library.h"
#include "memory.h"
#include "rounding.h"
#include "types.h"
