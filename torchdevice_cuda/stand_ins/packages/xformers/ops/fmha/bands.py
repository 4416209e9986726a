"""Masks of queries and keys that are one sequence each."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeVar

import torch
from torch import Tensor

from .sequences import _SeqLenInfo

_Bias = TypeVar("_Bias", bound="AttentionBias")
Shape = tuple[int, ...]
Device = str | torch.device


class AttentionBias:
    """A bias that is added to the scores, without being a tensor."""

    HOLDS_DENSE_TENSOR = False

    def to(self: _Bias, device: Any) -> _Bias:
        """Return it with its tensors on a device."""
        if not dataclasses.is_dataclass(self):
            return self
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        kinds = (Tensor, _SeqLenInfo)
        moved = {name: value.to(device) for name, value in fields.items() if isinstance(value, kinds)}
        return dataclasses.replace(self, **moved)

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor of a shape that ends with queries and keys."""
        raise NotImplementedError


def make_band(
    shape: Shape, dtype: torch.dtype, device: Device, left: int | None, right: int | None, from_bottomright: bool
) -> Tensor:
    """Return zeros for keys up to `left` before and `right` after a query's position, minus infinity for others."""
    queries, keys = shape[-2:]
    ahead = torch.arange(keys, device=device) - torch.arange(queries, device=device)[:, None]
    ahead = ahead - (keys - queries if from_bottomright else 0)
    hidden = torch.zeros(queries, keys, dtype=torch.bool, device=device)
    if left is not None:
        hidden = hidden | (ahead < -left)
    if right is not None:
        hidden = hidden | (ahead > right)
    return torch.zeros(shape, dtype=dtype, device=device).masked_fill(hidden, -math.inf)


def check_window(size: int) -> None:
    """Raise if a window has no key."""
    if size <= 0:
        raise ValueError(f"Expected `window_size > 0`, but window_size={size}")


class LowerTriangularMask(AttentionBias):
    """Causal, by distances from the first query and key."""

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor."""
        return make_band(shape, dtype, device, None, 0, False)

    def add_bias(self, bias: Tensor) -> LowerTriangularMaskWithTensorBias:
        """Return a causal mask with a bias."""
        return LowerTriangularMaskWithTensorBias(bias)


class LowerTriangularMaskWithTensorBias(LowerTriangularMask):
    """Causal, with a bias."""

    HOLDS_DENSE_TENSOR = True

    def __init__(self, bias: Tensor) -> None:
        self._bias = bias

    def to(self, device: Any) -> LowerTriangularMaskWithTensorBias:
        """Return it with its tensor on a device."""
        return type(self)(self._bias.to(device))

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor."""
        return super().materialize(shape, dtype, device) + self._bias


@dataclasses.dataclass
class LocalAttentionFromBottomRightMask(AttentionBias):
    """A window, by distances from the last query and key."""

    window_left: int
    window_right: int

    def __post_init__(self) -> None:
        for name in ("window_left", "window_right"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(
                    "Invalid window value passed to `LocalAttentionFromBottomRightMask`: expected"
                    f"`{name} > 0` but got {name}={value}"
                )

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor."""
        return make_band(shape, dtype, device, self.window_left, self.window_right, True)


class LowerTriangularFromBottomRightMask(AttentionBias):
    """Causal, by distances from the last query and key."""

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor."""
        return make_band(shape, dtype, device, None, 0, True)

    def make_local_attention(self, window_size: int) -> LowerTriangularFromBottomRightLocalAttentionMask:
        """Return it with a window."""
        return LowerTriangularFromBottomRightLocalAttentionMask(window_size)


@dataclasses.dataclass
class LowerTriangularFromBottomRightLocalAttentionMask(LowerTriangularFromBottomRightMask):
    """Causal with a window, by distances from the last query and key."""

    _window_size: int

    def __post_init__(self) -> None:
        check_window(self._window_size)

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor."""
        return make_band(shape, dtype, device, self._window_size - 1, 0, True)
