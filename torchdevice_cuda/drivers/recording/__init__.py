"""CUDA graphs where the kernels are PyTorch's own: calls are recorded above the kernels, and made again.

For the drivers whose devices torch knows (``cpu``, ``mps``). The compiled device of ``virtual`` records by itself.
"""
