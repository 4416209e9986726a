"""Libraries with kernels of their own for CUDA: what stands behind them where there is no CUDA GPU.

Nothing here is imported before the program has imported the library.
"""
