"""Padded batches as tokens one behind the other, and back."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor


def index_first_axis(input: Tensor, indices: Tensor) -> Tensor:
    """Return rows of a tensor."""
    assert input.ndim >= 2
    return input[indices]


def index_put_first_axis(values: Tensor, indices: Tensor, first_axis_dim: int) -> Tensor:
    """Return a tensor of so many rows that has these rows, and zeros."""
    assert indices.ndim == 1
    assert values.ndim >= 2
    return values.new_zeros((first_axis_dim, *values.shape[1:])).index_put((indices,), values)


def index_first_axis_residual(input: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return rows of a tensor, and the tensor."""
    return index_first_axis(input, indices), input


def unpad_input(
    hidden_states: Tensor, attention_mask: Tensor, unused_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor, int, Tensor]:
    """Return the tokens that a mask has, their indices, where sequences begin, the longest's length, and lengths."""
    mask = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths, used = (each.sum(-1, dtype=torch.int32) for each in (mask, attention_mask))
    return (*_unpad(hidden_states, mask, lengths), used)


def unpad_input_for_concatenated_sequences(
    hidden_states: Tensor, attention_mask_in_length: Tensor
) -> tuple[Tensor, Tensor, Tensor, int]:
    """Return what `unpad_input` does, for rows with several sequences: their lengths, then zeros."""
    total = attention_mask_in_length.sum(-1, keepdim=True)
    mask = torch.arange(attention_mask_in_length.shape[-1], device=total.device) < total
    lengths = attention_mask_in_length.flatten()
    return _unpad(hidden_states, mask, lengths[lengths != 0])


def _unpad(hidden_states: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor, int]:
    indices = mask.flatten().nonzero().flatten()
    starts = F.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0))
    return index_first_axis(hidden_states.flatten(0, 1), indices), indices, starts, int(lengths.max().item())


def pad_input(hidden_states: Tensor, indices: Tensor, batch: int, seqlen: int) -> Tensor:
    """Return tokens as a padded batch, with zeros for those that are missing."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).view(batch, seqlen, *hidden_states.shape[1:])
