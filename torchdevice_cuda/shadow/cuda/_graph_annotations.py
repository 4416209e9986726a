"""Names of kernels in a captured graph: stock's module, without calls of NVIDIA's driver."""

from torchdevice_cuda.shadow import stock

stock.execute(globals())

if "_HAS_CUDA_BINDINGS" in globals():
    _HAS_CUDA_BINDINGS = False
