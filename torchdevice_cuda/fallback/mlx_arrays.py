"""Conversion of CPU tensors to MLX arrays, and back."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any

import torch

# torch's own functions: the public ones may be redirected. NumPy is not used, since it may not be installed.
_to_dlpack = torch._C._to_dlpack
_frombuffer, _empty = torch._C._VariableFunctions.frombuffer, torch._C._VariableFunctions.empty


@functools.cache
def mlx() -> ModuleType | None:
    """Return ``mlx.core``, if MLX is installed and works."""
    try:
        return importlib.import_module("mlx.core")
    except (ImportError, OSError):
        return None


def to_mlx(mx: ModuleType, value: Any) -> Any:
    """Copy an argument of an operator, with arrays instead of tensors."""
    if isinstance(value, torch.Tensor):
        plain = value.detach().resolve_conj().resolve_neg().contiguous()
        if plain.dtype is torch.bfloat16:
            # Not every release of MLX accepts bfloat16: pass the bits as integers.
            return mx.array(_to_dlpack(plain.view(torch.uint16))).view(mx.bfloat16)
        return mx.array(_to_dlpack(plain))
    if value.__class__ in (list, tuple):
        return value.__class__(to_mlx(mx, item) for item in value)
    return value


def to_torch(mx: ModuleType, value: Any) -> Any:
    """Copy a result, with tensors instead of arrays."""
    if isinstance(value, mx.array):
        name = str(value.dtype).rpartition(".")[2]
        # Not through DLPack: on a Mac that would report the array as Metal's. A memoryview is needed: an array of one
        # element also converts to an integer, which bytearray takes as a length.
        held = bytearray(memoryview(value.view(mx.uint16) if name == "bfloat16" else value))
        dtype = getattr(torch, name)
        flat = _frombuffer(held, dtype=dtype) if held else _empty(0, dtype=dtype)
        return flat.reshape(value.shape)
    if value.__class__ in (list, tuple):
        return value.__class__(to_torch(mx, item) for item in value)
    return value
