"""The attention functions of flash_attn, with its signatures."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torchdevice_cuda.stand_ins.attention import Result, attend

from . import checks
from .cached import flash_attn_with_kvcache as flash_attn_with_kvcache
from .sequences import make_rules, pad, read_pages

Window = tuple[int, int]
_ROUNDED = 128
_DENSE, _VARLEN = "flash_attn::_flash_attn_forward", "flash_attn::_flash_attn_varlen_forward"


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Return the attention of a batch; (batch, length, heads, head size)."""
    checks.check_tensors(_DENSE, q, k, v)
    checks.check_sizes(q, k, q.shape[0])
    batch, _, heads, size = q.shape
    checks.check_shape(k, "k", (batch, k.shape[1], k.shape[2], size), "batch_size, seqlen_k, num_heads_k, head_size")
    checks.check_shape(v, "v", k.shape, "batch_size, seqlen_k, num_heads_k, head_size")
    rules = make_rules(q, batch, k.shape[1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes)
    wants_probabilities = return_attn_probs and dropout_p > 0
    result = attend(q, k, v, rules, wants_logsumexp=return_attn_probs, wants_probabilities=wants_probabilities)
    out = result.out.to(q.dtype)
    if not return_attn_probs:
        return out
    return out, result.logsumexp, _pad_probabilities(result, q, wants_probabilities)


def flash_attn_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Return the attention to keys and values of one tensor, (batch, length, 2, heads, head size)."""
    k, v = kv[:, :, 0], kv[:, :, 1]
    options: tuple[Any, ...] = (
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )
    return flash_attn_func(q, k, v, *options)


def flash_attn_qkvpacked_func(
    qkv: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Return the attention of one tensor, (batch, length, 3, heads, head size)."""
    q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
    options: tuple[Any, ...] = (
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )
    return flash_attn_func(q, k, v, *options)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Any:
    """Return the attention of sequences one behind the other, (total length, heads, head size)."""
    checks.check_tensors(_VARLEN, q, k, v)
    checks.check_starts(cu_seqlens_q, cu_seqlens_k)
    batch = cu_seqlens_q.numel() - 1
    checks.check_sizes(q, k, batch)
    total, heads, size = q.shape
    if block_table is None:
        checks.check_shape(k, "k", (k.shape[0], k.shape[1], size), "total_k, num_heads_k, head_size")
        checks.check_shape(v, "v", k.shape, "total_k, num_heads_k, head_size")
    else:
        checks.check_pages(block_table, k, batch)
    checks.check_shape(cu_seqlens_k, "cu_seqlens_k", (batch + 1,), "batch_size + 1")
    rules = make_rules(
        q, batch, int(max_seqlen_k), dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes
    )
    wants_probabilities = return_attn_probs and dropout_p > 0
    q_lengths, k_lengths = (starts[1:] - starts[:-1] for starts in (cu_seqlens_q, cu_seqlens_k))
    longest = int(max_seqlen_q), int(max_seqlen_k)
    keys, values = (
        pad(x, cu_seqlens_k, longest[1]) if block_table is None else read_pages(x, block_table) for x in (k, v)
    )
    queries = pad(q, cu_seqlens_q, longest[0])
    wants = {"wants_logsumexp": return_attn_probs, "wants_probabilities": wants_probabilities}
    result = attend(queries, keys, values, rules, q_lengths, k_lengths, **wants)
    # The place of each token in the batch, without waiting for the GPU.
    token = torch.arange(total, device=q.device)
    starts = cu_seqlens_q.to(token.dtype)
    which = (torch.searchsorted(starts, token, right=True) - 1).clamp(0, batch - 1)
    position = (token - starts[which]).clamp(0, longest[0] - 1)
    out = result.out[which, position].to(q.dtype)
    if not return_attn_probs:
        return out
    assert result.logsumexp is not None
    logsumexp = result.logsumexp[which, :, position].transpose(0, 1).contiguous()
    return out, logsumexp, _pad_probabilities(result, q, wants_probabilities)


def flash_attn_varlen_kvpacked_func(
    q: Tensor,
    kv: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Return the attention of sequences to keys and values of one tensor, (total length, 2, heads, head size)."""
    sequences = (cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k)
    options: tuple[Any, ...] = (
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )
    return flash_attn_varlen_func(q, kv[:, 0], kv[:, 1], *sequences, *options)


def flash_attn_varlen_qkvpacked_func(
    qkv: Tensor,
    cu_seqlens: Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: Window = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """Return the attention of sequences of one tensor, (total length, 3, heads, head size)."""
    sequences = (cu_seqlens, cu_seqlens, max_seqlen, max_seqlen)
    options: tuple[Any, ...] = (
        dropout_p,
        softmax_scale,
        causal,
        window_size,
        softcap,
        alibi_slopes,
        deterministic,
        return_attn_probs,
    )
    return flash_attn_varlen_func(qkv[:, 0], qkv[:, 1], qkv[:, 2], *sequences, *options)


def _pad_probabilities(result: Result, q: Tensor, are_wanted: bool) -> Tensor:
    """Return the probabilities as flash_attn has them: in whole tiles, and only if some are dropped."""
    if not are_wanted or result.probabilities is None:
        return torch.empty(0, dtype=q.dtype, device=q.device)
    rows, columns = (-size % _ROUNDED for size in result.probabilities.shape[-2:])
    return torch.nn.functional.pad(result.probabilities.to(q.dtype), (0, columns, 0, rows))
