"""How Python's import is made to serve other files, and what is loaded already rewritten; knows nothing of CUDA."""
