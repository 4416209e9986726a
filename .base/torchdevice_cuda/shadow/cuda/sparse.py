"""Sparse tensor types of the CUDA device: torch's C++ puts them here while torch is imported."""
