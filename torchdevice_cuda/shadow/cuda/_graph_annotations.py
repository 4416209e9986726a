"""Names of kernels in a captured graph: stock's, without the way to NVIDIA's driver."""

from torchdevice_cuda.shadow import stock

stock.execute(globals())

if "_HAS_CUDA_BINDINGS" in globals():
    _HAS_CUDA_BINDINGS = False
