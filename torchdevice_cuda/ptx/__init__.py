"""PTX, the assembly language of CUDA: statements of inline assembly are written as C++.

`parser` reads a statement, `table` lists the instructions, and `emit` writes C++ that calls the functions of
``include/host_ptx``. CUDA C++ and Triton use the same table.
"""
