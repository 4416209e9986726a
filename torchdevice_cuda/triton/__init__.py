"""Triton's kernels without a GPU: compiled by triton for the GPU that is claimed, and again for the host.

Compiling gives triton's own errors, metadata and assembly, as on the GPU. The machine code cannot run here; what runs
in its place is C++ that `compiler` writes from triton's intermediate representation, over the same memory. Kernels
that cannot be compiled so are run by triton's interpreter, from their source.
"""
