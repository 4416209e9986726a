"""Rotary embeddings of flash_attn."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.triton.rotary import apply_rotary


def rotate_half(x: Tensor, interleaved: bool = False) -> Tensor:
    """Return the pairs of a head turned by a right angle."""
    if interleaved:
        return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def apply_rotary_emb_torch(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False) -> Tensor:
    """Turn (batch, length, heads, head size) by tables of its length, in its type."""
    size = cos.shape[-1] * 2
    assert size <= x.shape[-1]
    cos, sin = (
        (table.repeat_interleave(2, -1) if interleaved else torch.cat((table, table), -1)).unsqueeze(-2)
        for table in (cos, sin)
    )
    turned = x[..., :size]
    return torch.cat((turned * cos + rotate_half(turned, interleaved) * sin, x[..., size:]), -1)


def apply_rotary_emb(
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: int | Tensor = 0,
    cu_seqlens: Tensor | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Turn (batch, length, heads, head size), or sequences one behind the other, by rotary positions."""
    return apply_rotary(x, cos.detach(), sin.detach(), seqlen_offsets, cu_seqlens, max_seqlen, interleaved, inplace)


apply_rotary_emb_func = apply_rotary_emb


def apply_rotary_emb_kv_(
    kv: Tensor, cos: Tensor, sin: Tensor, interleaved: bool = False, seqlen_offsets: int | Tensor = 0
) -> Tensor:
    """Turn the keys of (batch, length, 2, heads, head size), in place."""
    apply_rotary_emb(kv[:, :, 0], cos, sin, interleaved, True, seqlen_offsets)
    return kv


def apply_rotary_emb_qkv_(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    cos_k: Tensor | None = None,
    sin_k: Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: int | Tensor = 0,
    num_heads_q: int | None = None,
) -> Tensor:
    """Turn queries and keys, in place: (batch, length, 3, heads, head size), or all heads in one dimension."""
    if qkv.dim() == 5:
        q, k = qkv[:, :, 0], qkv[:, :, 1]
    else:
        assert qkv.dim() == 4 and num_heads_q is not None
        heads_k = (qkv.shape[2] - num_heads_q) // 2
        assert qkv.shape[2] == num_heads_q + 2 * heads_k
        q, k = qkv[:, :, :num_heads_q], qkv[:, :, num_heads_q : num_heads_q + heads_k]
    apply_rotary_emb(q, cos, sin, interleaved, True, seqlen_offsets)
    cos_k, sin_k = cos if cos_k is None else cos_k, sin if sin_k is None else sin_k
    apply_rotary_emb(k, cos_k, sin_k, interleaved, True, seqlen_offsets)
    return qkv
