#include "operators/reduction_loops.h"

namespace hostdevice {

extern const Reducer kSum{Sum::kAccumulators, Sum::kPlanes, &reduce_part<Sum, true>};
extern const Reducer kSumOfSquares{
    SumOfSquares::kAccumulators, SumOfSquares::kPlanes, &reduce_part<SumOfSquares, true>};

}  // namespace hostdevice
