"""NVTX ranges and marks: stock's functions, over torchdevice_cuda's ``torch._C._nvtx``."""

from torchdevice_cuda.shadow import stock

stock.execute(globals())
