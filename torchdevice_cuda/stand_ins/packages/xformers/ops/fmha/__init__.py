"""Memory-efficient attention of xformers, with its signatures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torchdevice_cuda.stand_ins.attention import Result, Rules, attend

from . import attn_bias
from .attn_bias import AttentionBias, BlockDiagonalMask, LowerTriangularMask
from .inputs import Inputs

Bias = Tensor | AttentionBias


class AttentionOpBase:
    """A kernel of xformers; here all compute the same."""


class AttentionFwOpBase(AttentionOpBase):
    """A kernel for the forward pass."""


class AttentionBwOpBase(AttentionOpBase):
    """A kernel for the backward pass."""


AttentionOp = tuple[Any, Any]
MemoryEfficientAttentionCkOp = (AttentionFwOpBase, AttentionBwOpBase)
MemoryEfficientAttentionCutlassFwdFlashBwOp = MemoryEfficientAttentionCkOp
MemoryEfficientAttentionCutlassOp = MemoryEfficientAttentionCkOp
MemoryEfficientAttentionFlashAttentionOp = MemoryEfficientAttentionCkOp
MemoryEfficientAttentionSplitKCkOp = MemoryEfficientAttentionCkOp
ALL_FW_OPS: list[type[AttentionFwOpBase]] = [AttentionFwOpBase]
ALL_BW_OPS: list[type[AttentionBwOpBase]] = [AttentionBwOpBase]
__all__ = [
    "ALL_BW_OPS",
    "ALL_FW_OPS",
    "AttentionBias",
    "AttentionOp",
    "AttentionOpBase",
    "BlockDiagonalMask",
    "LowerTriangularMask",
    "MemoryEfficientAttentionCkOp",
    "MemoryEfficientAttentionCutlassFwdFlashBwOp",
    "MemoryEfficientAttentionCutlassOp",
    "MemoryEfficientAttentionFlashAttentionOp",
    "MemoryEfficientAttentionSplitKCkOp",
    "attn_bias",
    "memory_efficient_attention",
]


def _compute(inputs: Inputs, *, wants_logsumexp: bool = False) -> Result:
    inputs.check()
    q, k, v = inputs.list_with_heads()
    scale = q.shape[-1] ** -0.5 if inputs.scale is None else inputs.scale
    rules = Rules(scale, bias=inputs.make_bias(), dropout=inputs.p)
    result = attend(q, k, v, rules, wants_logsumexp=wants_logsumexp)
    shape = (*inputs.query.shape[:-1], inputs.value.shape[-1])
    result.out = result.out.reshape(shape).to(inputs.output_dtype or inputs.query.dtype)
    if result.logsumexp is not None and inputs.query.ndim == 5:
        result.logsumexp = result.logsumexp.unflatten(1, inputs.query.shape[2:4])
    return result


def _refuse_dropout(p: float) -> None:
    if p != 0.0:
        raise NotImplementedError(
            "dropout is not supported on the non-autograd API."
            " If you want to use dropout, please call `memory_efficient_attention` directly"
        )


def memory_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Bias | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: AttentionOp | None = None,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the attention of (batch, length, heads, head size), with groups before heads or without heads."""
    return _compute(Inputs(query, key, value, attn_bias, p, scale, output_dtype)).out


def memory_efficient_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Bias | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> Tensor:
    """Return the attention without gradients."""
    with torch.no_grad():
        return _compute(Inputs(query, key, value, attn_bias, p, scale, output_dtype)).out


def memory_efficient_attention_forward_requires_grad(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Bias | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the attention and its logarithms of sums, for `memory_efficient_attention_backward`."""
    _refuse_dropout(p)
    with torch.no_grad():
        result = _compute(Inputs(query, key, value, attn_bias, p, scale, output_dtype), wants_logsumexp=True)
    assert result.logsumexp is not None
    return result.out, result.logsumexp


def memory_efficient_attention_backward(
    grad: Tensor,
    output: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Bias | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key and value."""
    _refuse_dropout(p)
    leaves = [x.detach().requires_grad_() for x in (query, key, value)]
    with torch.enable_grad():
        out = _compute(Inputs(leaves[0], leaves[1], leaves[2], attn_bias, p, scale)).out
    dq, dk, dv = torch.autograd.grad(out, leaves, grad)
    return dq, dk, dv


def memory_efficient_attention_partial(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Bias | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
    output_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the attention to some keys, and its logarithms of sums, for `merge_attentions`."""
    if p != 0.0:
        raise NotImplementedError("dropout is not supported.")
    with torch.no_grad():
        inputs = Inputs(query, key, value, attn_bias, p, scale, output_dtype or torch.float32)
        result = _compute(inputs, wants_logsumexp=True)
    assert result.logsumexp is not None
    return result.out, result.logsumexp


def merge_attentions(
    attn_split: Tensor | Sequence[Tensor],
    lse_split: Tensor | Sequence[Tensor],
    write_lse: bool = True,
    output_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the attention to all keys, from that to each part of them."""
    outs, sums = (list(parts) if isinstance(parts, Tensor) else parts for parts in (attn_split, lse_split))
    if len(outs) != len(sums):
        raise ValueError(
            f"Incompatible number of LSE and attention chunks: len(attn_split)={len(outs)}, len(lse_split)={len(sums)}"
        )
    parts = torch.stack([each.masked_fill(each == math.inf, -math.inf) for each in sums])
    total = parts.logsumexp(0)
    weights = (parts - total).exp().movedim(-1, 2).unsqueeze(-1)  # as the outputs: (parts, batch, length, heads, 1)
    merged = (torch.stack([each.to(parts.dtype) for each in outs]) * weights).sum(0)
    return merged.to(output_dtype or outs[0].dtype), total if write_lse else None
