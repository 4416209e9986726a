"""Attention as flash_attn and xformers define it, over ``torch.nn.functional.scaled_dot_product_attention``.

Tensors are (batch, length, heads, head size), and scores are computed in float32, as the packages' kernels do. A row
without any key gives zeros.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812

Tensor = torch.Tensor


@dataclasses.dataclass
class Rules:
    """How queries attend to keys. Query ``i`` is at key position ``i + keys - queries``: the last ones are aligned."""

    scale: float
    #: keys before and after a query's position that it sees; -1: all
    left: int = -1
    right: int = -1
    #: scores are limited to plus and minus this; 0: not
    softcap: float = 0.0
    #: (heads,) or (batch, heads): what a score loses for each position of distance
    slopes: Tensor | None = None
    #: added to scores, (batch, heads, queries, keys) or a shape that broadcasts to it; minus infinity hides a key
    bias: Tensor | None = None
    dropout: float = 0.0


@dataclasses.dataclass
class Result:
    """What attention gives."""

    out: Tensor
    #: (batch, heads, queries); infinity for a row without any key
    logsumexp: Tensor | None = None
    #: (batch, heads, queries, keys): probabilities, those that were dropped with a minus
    probabilities: Tensor | None = None


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rules: Rules,
    q_lengths: Tensor | None = None,
    k_lengths: Tensor | None = None,
    *,
    wants_logsumexp: bool = False,
    wants_probabilities: bool = False,
) -> Result:
    """Return the attention of a batch; lengths, if they differ, are (batch,) and count from the first position."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    queries, keys = q.shape[2], k.shape[2]
    visible, distance = _see(queries, keys, rules, q_lengths, k_lengths, q.device)
    bias = _add_up(rules, distance, dtype)
    has_key = None
    if rules.bias is not None and bias is not None:
        has_key = (bias > -math.inf).any(-1, keepdim=True)
        bias = bias.masked_fill(~has_key, 0)
    if visible is not None:
        has_key = visible.any(-1, keepdim=True)
        visible = visible | ~has_key  # softmax of nothing is not a number
        hidden = torch.zeros((), dtype=dtype, device=q.device).masked_fill(~visible, -math.inf)
        bias = hidden if bias is None else bias + hidden
    q, k, v = (x.to(dtype) for x in (q, k, v))
    if rules.softcap > 0 or wants_probabilities or wants_logsumexp:
        result = _compute(q, k, v, bias, rules)
    else:
        result = Result(_compute_fused(q, k, v, bias, rules))
    out = result.out if has_key is None else result.out.masked_fill(~has_key, 0)
    logsumexp = result.logsumexp
    if has_key is not None and logsumexp is not None:
        logsumexp = logsumexp.masked_fill(~has_key.squeeze(-1), math.inf)
    return Result(out.transpose(1, 2).contiguous(), logsumexp, result.probabilities)


def _see(
    queries: int, keys: int, rules: Rules, q_lengths: Tensor | None, k_lengths: Tensor | None, device: torch.device
) -> tuple[Tensor | None, Tensor | None]:
    """Return which keys a query sees (``None``: all), and their distances if they count."""
    is_local = rules.left >= 0 or rules.right >= 0
    if not is_local and k_lengths is None and rules.slopes is None:
        return None, None
    column = torch.arange(keys, device=device)
    last_query, last_key = (
        size if lengths is None else lengths.to(device).view(-1, 1, 1, 1)
        for size, lengths in ((queries, q_lengths), (keys, k_lengths))
    )
    position = torch.arange(queries, device=device).view(-1, 1) + (last_key - last_query)
    visible = None if k_lengths is None else column < last_key
    bounds = ((rules.left, column >= position - rules.left), (rules.right, column <= position + rules.right))
    for size, bound in bounds:
        if size >= 0:
            visible = bound if visible is None else visible & bound
    return visible, None if rules.slopes is None else (position - column).abs()


def _add_up(rules: Rules, distance: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Return what is added to the scores, but for hidden keys."""
    bias = None if rules.bias is None else rules.bias.to(dtype)
    if distance is None or rules.slopes is None:
        return bias
    slopes = rules.slopes.to(dtype).unsqueeze(-1).unsqueeze(-1)  # (batch, heads, 1, 1), or without the batch
    return -slopes * distance if bias is None else bias - slopes * distance


def _compute_fused(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, rules: Rules) -> Tensor:
    return F.scaled_dot_product_attention(
        q, k, v, bias, rules.dropout, scale=rules.scale, enable_gqa=q.shape[1] != k.shape[1]
    )


def _compute(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, rules: Rules) -> Result:
    """Compute what the fused operator lacks: limited scores, their sums, and probabilities."""
    group = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group, 1) for x in (k, v))
    scores = q @ k.transpose(-2, -1) * rules.scale
    if rules.softcap > 0:
        scores = rules.softcap * torch.tanh(scores / rules.softcap)
    scores = scores if bias is None else scores + bias
    probabilities = scores.softmax(-1)
    kept = F.dropout(torch.ones_like(probabilities), rules.dropout)
    signed = torch.where(kept > 0, probabilities, -probabilities).detach()
    return Result((probabilities * kept) @ v, scores.logsumexp(-1).detach(), signed)


def refuse_host_tensor(operator: str, *tensors: Any) -> None:
    """Raise torch's error for an operator that has a kernel for CUDA alone."""
    if _reports_cuda() and not all(tensor.is_cuda for tensor in tensors):
        raise NotImplementedError(f"Could not run '{operator}' with arguments from the 'CPU' backend.")


@functools.cache
def _reports_cuda() -> bool:
    """Return whether tensors on the GPU report it; on the CPU driver they do not."""
    return torch.empty(0, device="cuda").is_cuda


def capability(tensor: Tensor) -> tuple[int, int]:
    """Return the compute capability of the GPU that a tensor is on."""
    return torch.cuda.get_device_capability(tensor.device if tensor.is_cuda else None)
