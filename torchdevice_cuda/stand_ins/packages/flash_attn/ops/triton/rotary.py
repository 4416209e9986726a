"""The operator behind `layers.rotary`."""

from __future__ import annotations

import torch
from torch import Tensor

from ...rotation import rotate


def apply_rotary(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    conjugate: bool = False,
) -> Tensor:
    """Turn (batch, length, heads, head size), or sequences one behind the other, by rotary positions."""
    assert cos.shape == sin.shape and cos.dtype == sin.dtype
    if cu_seqlens is None:
        position = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
    else:
        assert max_seqlen is not None, "If cu_seqlens is passed in, then max_seqlen must be passed"
        token = torch.arange(x.shape[0], device=x.device)
        starts = cu_seqlens.to(token.dtype)
        which = (torch.searchsorted(starts, token, right=True) - 1).clamp(0, starts.numel() - 2)
        position = token - starts[which]
    if isinstance(seqlen_offsets, Tensor):
        position = position + (seqlen_offsets[:, None] if cu_seqlens is None else seqlen_offsets[which])
    else:
        position = position + seqlen_offsets
    turned = rotate(x, cos, sin, interleaved, position, conjugate)
    return x.copy_(turned) if inplace else turned
