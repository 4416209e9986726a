"""Arguments of flash_attn's functions as `attend` takes them."""

from __future__ import annotations

import torch
from torch import Tensor

from torchdevice_cuda.stand_ins.attention import Rules

from . import checks


def make_rules(
    q: Tensor,
    batch: int,
    keys: int,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, int],
    softcap: float,
    alibi_slopes: Tensor | None,
) -> Rules:
    """Check the options of a call and return them as rules; a window of all `keys` is none."""
    checks.check_options(q, batch, dropout_p, softcap, alibi_slopes)
    left, right = (-1 if size >= keys else size for size in window_size)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    return Rules(scale, left, 0 if causal else right, softcap, alibi_slopes, dropout=dropout_p)


def pad(x: Tensor, starts: Tensor, longest: int) -> Tensor:
    """Return sequences one behind the other as a batch of the longest's length; what is behind a sequence is any."""
    row = starts[:-1, None].long() + torch.arange(longest, device=x.device)
    return x[row.clamp(max=max(x.shape[0] - 1, 0))]


def read_pages(cache: Tensor, block_table: Tensor) -> Tensor:
    """Return the pages of each sequence, one behind the other."""
    return cache[block_table.long()].flatten(1, 2)
