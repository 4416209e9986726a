"""Tensors of the CPU as arrays of MLX, and back."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import torch

_from_numpy = torch._C._VariableFunctions.from_numpy
_numpy = torch._C.TensorBase.numpy


@functools.cache
def mlx() -> ModuleType | None:
    """``mlx.core``, where MLX is installed and works."""
    try:
        return importlib.import_module("mlx.core")
    except (ImportError, OSError):
        return None


def to_mlx(value: Any) -> Any:
    """An argument of an operator with arrays in the place of tensors."""
    if isinstance(value, torch.Tensor):
        mx = mlx()
        plain = value.detach().resolve_conj().resolve_neg().contiguous()
        if plain.dtype is torch.bfloat16:
            # numpy has no bfloat16: the bits travel as integers.
            return mx.array(_numpy(plain.view(torch.uint16))).view(mx.bfloat16)
        return mx.array(_numpy(plain))
    if value.__class__ in (list, tuple):
        return value.__class__(to_mlx(item) for item in value)
    return value


def to_torch(value: Any) -> Any:
    """A result with tensors in the place of arrays."""
    mx = mlx()
    if isinstance(value, mx.array):
        import numpy

        if value.dtype == mx.bfloat16:
            return _from_numpy(numpy.array(value.view(mx.uint16))).view(torch.bfloat16)
        return _from_numpy(numpy.array(value))
    if value.__class__ in (list, tuple):
        return value.__class__(to_torch(item) for item in value)
    return value
