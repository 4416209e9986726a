"""Attention in float64, of one sequence: what the stand-ins are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

#: Largest error of an output or a gradient, relative to the largest number; results are rounded to 16 bits.
LIMIT = {torch.float16: 2e-3, torch.bfloat16: 1e-2, torch.float32: 1e-5}


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    causal: bool = False,
    window: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    slopes: Tensor | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
) -> Tensor:
    """Return (queries, heads, head size) from tensors of these dimensions, one head after the other."""
    queries, keys, outs = q.shape[0], k.shape[0], []
    for head in range(q.shape[1]):
        group = head * k.shape[1] // q.shape[1]
        ahead = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
        added = torch.zeros(queries, keys, dtype=torch.float64)
        if bias is not None:
            added = added + (bias[head] if bias.dim() == 3 else bias)
        if slopes is not None:
            added = added - slopes[head] * ahead.abs()
        left, right = window[0], 0 if causal else window[1]
        hidden = torch.zeros(queries, keys, dtype=torch.bool)
        if left >= 0:
            hidden |= ahead < -left
        if right >= 0:
            hidden |= ahead > right
        hidden = hidden | (added == -math.inf)
        added = added.masked_fill(hidden, -math.inf)
        seen = ~hidden.all(-1)
        factor = q.shape[-1] ** -0.5 if scale is None else scale
        out = torch.zeros(queries, v.shape[-1], dtype=torch.float64)
        if softcap:
            scores = softcap * torch.tanh(q[:, head] @ k[:, group].T * factor / softcap) + added
            out[seen] = scores[seen].softmax(-1) @ v[:, group]
        elif seen.any():
            out[seen] = torch.nn.functional.scaled_dot_product_attention(
                *(x[None, None] for x in (q[seen, head], k[:, group], v[:, group])),
                attn_mask=added[seen][None, None],
                scale=factor,
            )[0, 0]
        outs.append(out)
    return torch.stack(outs, 1)


def compare(run: Callable[..., Any], expected: Callable[..., Any], *inputs: Tensor) -> None:
    """Compare outputs and gradients of inputs with those in float64."""
    found = [x.detach().cuda().requires_grad_() for x in inputs]
    wanted = [x.detach().double().requires_grad_() for x in inputs]
    outs = run(*found), expected(*wanted)
    assert outs[0].dtype == inputs[0].dtype
    assert_close(outs[0], outs[1], inputs[0].dtype)
    weights = torch.randn(outs[1].shape, generator=torch.Generator().manual_seed(5)).to(inputs[0].dtype)
    outs[0].backward(weights.cuda())
    outs[1].backward(weights.double())
    for one, other in zip(found, wanted, strict=True):
        assert one.grad is not None and other.grad is not None
        assert_close(one.grad, other.grad, inputs[0].dtype)


def assert_close(found: Tensor, wanted: Tensor, dtype: torch.dtype) -> None:
    assert found.shape == wanted.shape
    error = (found.detach().cpu().double() - wanted.detach()).abs().max() / wanted.detach().abs().max().clamp(min=1e-3)
    assert error < LIMIT[dtype], error


def draw(*shape: int, dtype: torch.dtype = torch.float16, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))).to(dtype)
