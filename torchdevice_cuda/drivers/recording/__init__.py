"""CUDA graphs if the kernels are PyTorch's own: calls are recorded above the kernels, and repeated.

For drivers whose devices torch knows (``cpu``, ``mps``). The compiled device of ``virtual`` records by itself.
"""
