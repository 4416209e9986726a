"""Triton's kernels without a GPU: compiled by triton for the GPU that is claimed, and run by triton's interpreter.

Compiling gives triton's own errors, metadata and assembly, as on the GPU. The machine code cannot run here; what runs
in its place is the kernel's source, block by block, over the same memory.
"""
