"""The errors of flash_attn for arguments that its kernels do not take, in its words and their order."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torchdevice_cuda.stand_ins.attention import capability, refuse_host_tensor

_LARGEST_HEAD = 256
_PAGE = 256
_TYPES = (torch.float16, torch.bfloat16)


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise RuntimeError(message)


def _check_gpu(q: Tensor) -> None:
    reported = capability(q)
    if reported >= (8, 0):
        return
    error = RuntimeError("FlashAttention only supports Ampere GPUs or newer.")
    if hasattr(error, "add_note"):  # Python 3.11
        version = ".".join(map(str, reported))
        error.add_note(f"The GPU reports compute capability {version}; --gpu and --capability choose another.")
    raise error


def check_tensors(operator: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Check the device and the types of queries, keys and values."""
    refuse_host_tensor(operator, q, k, v)
    _check_gpu(q)
    _check(q.dtype in _TYPES, "FlashAttention only support fp16 and bf16 data type")
    _check(k.dtype == q.dtype, "query and key must have the same dtype")
    _check(v.dtype == q.dtype, "query and value must have the same dtype")


def check_sizes(q: Tensor, k: Tensor, batch: int) -> None:
    """Check sizes of heads, and their numbers."""
    _check(batch > 0, "batch size must be positive")
    _check(q.shape[-1] <= _LARGEST_HEAD, f"FlashAttention forward only supports head dimension at most {_LARGEST_HEAD}")
    _check(q.shape[-2] % k.shape[-2] == 0, "Number of heads in key/value must divide number of heads in query")


def check_shape(tensor: Tensor, name: str, shape: Sequence[int], described: str) -> None:
    """Check a shape."""
    _check(tuple(tensor.shape) == tuple(shape), f"{name} must have shape ({described})")


def check_options(q: Tensor, batch: int, dropout_p: float, softcap: float, alibi_slopes: Tensor | None) -> None:
    """Check what the mask and dropout are made of."""
    _check(softcap <= 0 or dropout_p == 0, "Softcapping does not support dropout for now")
    _check(dropout_p < 1, "Expected p_dropout < 1.f to be true, but got false.")
    if alibi_slopes is not None:
        heads = q.shape[-2]
        _check(alibi_slopes.dtype == torch.float32, "ALiBi slopes must have dtype fp32")
        _check(alibi_slopes.stride(-1) == 1, "ALiBi slopes tensor must have contiguous last dimension")
        is_right = tuple(alibi_slopes.shape) in ((heads,), (batch, heads))
        _check(is_right, "Expected alibi_slopes to have the shape (num_heads) or (batch_size, num_heads).")


def check_starts(cu_seqlens_q: Tensor, cu_seqlens_k: Tensor) -> None:
    """Check the positions at which sequences begin."""
    for name, starts in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        _check(starts.dtype == torch.int32, f"{name} must have dtype int32")
    for name, starts in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        refuse_host_tensor("flash_attn::_flash_attn_varlen_forward", starts)
        _check(starts.is_contiguous(), f"{name} must be contiguous")


def check_pages(block_table: Tensor, cache: Tensor, batch: int) -> None:
    """Check a cache of pages."""
    _check(block_table.dtype == torch.int32, "block_table must have dtype torch.int32")
    _check(block_table.stride(-1) == 1, "block_table must have contiguous last dimension")
    _check(cache.shape[1] % _PAGE == 0, f"Paged KV cache block size must be divisible by {_PAGE}")
    shape = (batch, block_table.shape[1])
    check_shape(block_table, "block_table", shape, "batch_size, max_num_blocks_per_seq")


def check_new_keys(q: Tensor, k: Tensor, v: Tensor | None, lengths: Tensor | None, length: int, cache: Tensor) -> None:
    """Check keys and values that are put into a cache of some length."""
    _check(v is not None, "If key is supplied, value must also be passed in")
    _check(lengths is not None, "If key is supplied, seqlens_k must also be passed in")
    _check(q.shape[1] <= length, "If key is supplied, it must have seqlen <= the seqlen of the KV cache")
    _check(k.dtype == q.dtype, "Key must have the same dtype as query")
    assert v is not None
    _check(v.dtype == q.dtype, "Value must have the same dtype as query")
    shape = (q.shape[0], k.shape[1], cache.shape[2], q.shape[3])
    for name, tensor in (("k", k), ("v", v)):
        check_shape(tensor, name, shape, "batch_size, seqlen_knew, num_heads_k, head_size_og")


def check_lengths(lengths: Tensor, batch: int, name: str) -> None:
    """Check a number of each sequence."""
    _check(lengths.dtype == torch.int32, f"{name} must have dtype int32")
    check_shape(lengths, name, (batch,), "batch_size")


def check_rotary(q: Tensor, k: Tensor | None, cos: Tensor, sin: Tensor | None, length: int) -> None:
    """Check the tables of rotary positions."""
    _check(
        k is not None,
        "If rotary cos/sin are provided, new key / value to be appended to KV cache must also be provided",
    )
    size = cos.shape[1] * 2
    _check(size <= q.shape[-1], "rotary_dim must be <= headdim")
    _check(size % 16 == 0, "Only rotary dimensions divisible by 16 are currently supported")
    _check(cos.shape[0] >= length, "cos/sin seqlen must be at least the seqlen of KV cache")
    _check(cos.dtype == q.dtype, "rotary_cos must have the same dtype as query")
    _check(sin is not None, "If rotary cos is provided, rotary sin must also be provided")


def check_batch_index(is_paged: bool) -> None:
    """Check that sequences of a cache are chosen in one way."""
    _check(not is_paged, "Paged KVcache does not support cache_batch_idx")


def check_left_padding(is_paged: bool) -> None:
    """Check that sequences of a cache begin at its pages."""
    _check(not is_paged, "We don't support Paged KV and leftpad_k running at the same time yet")
