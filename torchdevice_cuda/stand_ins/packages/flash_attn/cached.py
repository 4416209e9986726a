"""Attention to a cache of keys and values, to which new ones may be added."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchdevice_cuda.stand_ins.attention import attend

from . import checks
from .rotation import rotate
from .sequences import make_rules, read_pages


def flash_attn_with_kvcache(
    q: Tensor,
    k_cache: Tensor,
    v_cache: Tensor,
    k: Tensor | None = None,
    v: Tensor | None = None,
    rotary_cos: Tensor | None = None,
    rotary_sin: Tensor | None = None,
    cache_seqlens: int | Tensor | None = None,
    cache_batch_idx: Tensor | None = None,
    cache_leftpad: Tensor | None = None,
    block_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """Return the attention to a cache; put new keys and values into it first. Gradients are not computed."""
    assert k_cache.stride(-1) == 1, "k_cache must have contiguous last dimension"
    assert v_cache.stride(-1) == 1, "v_cache must have contiguous last dimension"
    is_paged, batch = block_table is not None, q.shape[0]
    checks.check_tensors("flash_attn_2_cuda::fwd_kvcache", q, k_cache, v_cache)
    if block_table is not None:
        checks.check_pages(block_table, k_cache, batch)
    checks.check_sizes(q, k_cache, batch)
    length = k_cache.shape[1] if block_table is None else block_table.shape[1] * k_cache.shape[1]
    if isinstance(cache_seqlens, int):
        cache_seqlens = torch.full((batch,), cache_seqlens, dtype=torch.int32, device=q.device)
    rules = make_rules(q, batch, length, 0.0, softmax_scale, causal, window_size, softcap, alibi_slopes)
    if k is not None:
        checks.check_new_keys(q, k, v, cache_seqlens, length, k_cache)
    if cache_seqlens is not None:
        checks.check_lengths(cache_seqlens, batch, "seqlens_k")
    if cache_leftpad is not None:
        checks.check_left_padding(is_paged)
        checks.check_lengths(cache_leftpad, batch, "leftpad_k")
    if rotary_cos is not None:
        checks.check_rotary(q, k, rotary_cos, rotary_sin, length)
    if cache_batch_idx is not None:
        checks.check_batch_index(is_paged)
    with torch.no_grad():
        first = (
            torch.zeros(batch, dtype=torch.int64, device=q.device) if cache_leftpad is None else cache_leftpad.long()
        )
        used = torch.full_like(first, length) if cache_seqlens is None else cache_seqlens.long()
        if rotary_cos is not None and k is not None:
            assert rotary_sin is not None
            tables = rotary_cos, rotary_sin, rotary_interleaved
            is_ordered = causal or rules.left >= 0 or rules.right >= 0
            q = rotate(q, *tables, _count(used, q.shape[1] if is_ordered else 1).expand(-1, q.shape[1]))
            k = rotate(k, *tables, _count(used, k.shape[1]))
        index = torch.arange(batch, device=q.device) if cache_batch_idx is None else cache_batch_idx.long()
        if k is not None and v is not None:
            position = _count(used, k.shape[1])
            for cache, new in ((k_cache, k), (v_cache, v)):
                cache[_locate(position, index, block_table, cache.shape[1])] = new
            used = used + k.shape[1]
        keys, values = (
            cache[index] if block_table is None else read_pages(cache, block_table) for cache in (k_cache, v_cache)
        )
        if cache_leftpad is not None:
            row = _count(first, length).clamp(max=length - 1)
            keys, values = (cache[torch.arange(batch, device=q.device)[:, None], row] for cache in (keys, values))
        result = attend(q, keys, values, rules, None, used - first, wants_logsumexp=return_softmax_lse)
    out = result.out.to(q.dtype)
    return (out, result.logsumexp) if return_softmax_lse else out


def _count(first: Tensor, size: int) -> Tensor:
    """Return positions from the first on, (batch, size)."""
    return first[:, None] + torch.arange(size, device=first.device)


def _locate(position: Tensor, index: Tensor, block_table: Tensor | None, size: int) -> tuple[Tensor, Tensor]:
    """Return where positions of sequences are in a cache."""
    if block_table is None:
        return index[:, None], position
    return block_table.long().gather(1, position // size), position % size
