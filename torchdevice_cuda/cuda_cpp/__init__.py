"""Kernels that programs bring: CUDA C++ is translated to C++, compiled by the host's compiler, and run on its cores.

The way in is a toolkit of our own. PyTorch's build functions ask CUDA's toolkit for a compiler, headers and libraries.
That is what they are given (`toolkit`): an `nvcc` that preprocesses a source, translates what is CUDA's language in
it (`translation`) and has the host's compiler do the rest, over headers of ours (`include`). Kernels that are compiled
while a program runs take the same way (`compiled`, `jiterator`).
"""

from pathlib import Path

#: Our headers, found before all others.
INCLUDE = Path(__file__).resolve().parent / "include"
