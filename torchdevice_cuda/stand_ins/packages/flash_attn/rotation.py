"""Rotary positions: pairs of numbers of a head are turned by an angle that grows with the position."""

from __future__ import annotations

import torch
from torch import Tensor


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, position: Tensor, conjugate: bool = False) -> Tensor:
    """Return `x`, (..., heads, head size), turned by the tables' angles at its positions, (...)."""
    size = cos.shape[-1] * 2
    assert size <= x.shape[-1], "rotary_dim must be <= headdim"
    c, s = (table[position.long()].float().unsqueeze(-2) for table in (cos, sin))
    s = -s if conjugate else s
    turned = x[..., :size].float()
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pair = a * c - b * s, a * s + b * c
    joined = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat((joined.to(x.dtype), x[..., size:]), -1)
