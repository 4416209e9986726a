"""Names for stretches of a program, NVTX's ranges and marks: stock's functions, over a ``torch._C._nvtx`` of ours."""

from torchdevice_cuda.shadow import stock

stock.execute(globals())
