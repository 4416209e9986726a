"""A compiler of Triton kernels for the host: Triton's own IR (TTIR) in, a library of C++ out.

Triton compiles a kernel for the GPU as always, which gives its errors, metadata and assembly. The TTIR that it made on
the way is parsed here, written as C++ and compiled with the machine's compiler.
"""
