"""Operators that flash_attn has as Triton kernels."""
