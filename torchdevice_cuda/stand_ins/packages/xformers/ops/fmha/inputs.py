"""Arguments of xformers' attention, with its errors."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from torchdevice_cuda.stand_ins.attention import refuse_host_tensor

from .attn_bias import VARLEN_BIASES, AttentionBias, LowerTriangularMask, LowerTriangularMaskWithTensorBias
from .attn_bias import BlockDiagonalMask as _BlockDiagonalMask

_TYPES = (torch.float32, torch.float16, torch.bfloat16)
_OPERATOR = "memory_efficient_attention_forward"


@dataclasses.dataclass
class Inputs:
    """Arguments of a call."""

    query: Tensor
    key: Tensor
    value: Tensor
    attn_bias: Tensor | AttentionBias | None = None
    p: float = 0.0
    scale: float | None = None
    output_dtype: torch.dtype | None = None

    def check(self) -> None:
        """Raise xformers' error for arguments that its kernels do not take."""
        qkv = (self.query, self.key, self.value)
        if self.query.ndim not in (3, 4, 5) or any(x.ndim != self.query.ndim for x in qkv):
            raise ValueError(f"Query/Key/Value should all have BMGHK, BMHK or BMK shape.\n{self._list_shapes()}")
        if any(x.device != self.query.device for x in qkv):
            raise ValueError("Query/Key/Value should all be on the same device")
        self._check_bias_device()
        if any(x.dtype != self.query.dtype for x in qkv):
            raise ValueError(
                "Query/Key/Value should either all have the same dtype, or "
                "(in the quantized case) Key/Value should have dtype torch.int32\n"
                f"  query.dtype: {self.query.dtype}\n"
                f"  key.dtype  : {self.key.dtype}\n"
                f"  value.dtype: {self.value.dtype}"
            )
        self._check_bias()
        if self.p < 0.0 or self.p > 1.0:
            raise ValueError(f"Invalid dropout probability: p={self.p}")
        self._check_shapes()
        if self.query.dtype not in _TYPES:
            raise NotImplementedError(
                f"No operator found for `{_OPERATOR}` with inputs:\n     query       : shape={tuple(self.query.shape)} "
                f"({self.query.dtype})\n`cutlassF-pt` is not supported because:\n    dtype={self.query.dtype} "
                f"(supported: {{{', '.join(map(str, _TYPES))}}})"
            )
        refuse_host_tensor(f"xformers::{_OPERATOR}", *qkv)

    def _list_shapes(self) -> str:
        return f"  query.shape: {self.query.shape}\n  key.shape  : {self.key.shape}\n  value.shape: {self.value.shape}"

    def _check_bias_device(self) -> None:
        if not isinstance(self.attn_bias, VARLEN_BIASES):
            return
        device = self.attn_bias.q_seqinfo.seqstart.device
        if device != self.query.device:
            raise ValueError(
                "Attention bias and Query/Key/Value should be on the same device\n"
                f"  query.device: {self.query.device}\n  attn_bias   : {device}\n"
            )

    def _check_bias(self) -> None:
        bias, query = self.attn_bias, self.query
        if query.ndim == 3 and not (bias is None or type(bias) in (LowerTriangularMask, Tensor)):
            raise ValueError(
                f"Please provide inputs in BMHK format rather than BMK when using bias type `{type(bias).__name__}`"
            )
        tensor = bias._bias if isinstance(bias, LowerTriangularMaskWithTensorBias) else bias
        if query.ndim == 4 and isinstance(tensor, Tensor):
            expected = (query.shape[0], query.shape[2], query.shape[1], self.key.shape[1])
            if tensor.shape != expected:
                raise ValueError(
                    f"Invalid shape for attention bias: {tensor.shape} (expected {expected})\n{self._list_shapes()}"
                )
        if isinstance(bias, _BlockDiagonalMask) and any(x.shape[0] != 1 for x in (query, self.key, self.value)):
            raise ValueError(f"Expected batch_size=1 when using block-diagonal bias\n{self._list_shapes()}")

    def _check_shapes(self) -> None:
        query, key, value = self.query.shape, self.key.shape, self.value.shape
        is_right = query[0] == key[0] == value[0] and key[1] == value[1] and query[2:] == key[2:]
        if not (is_right and key[2:-1] == value[2:-1]):
            raise ValueError(
                f"Incompatible shapes for attention inputs:\n{self._list_shapes()}\n"
                "HINT: We don't support broadcasting, please use `expand` "
                "yourself before calling `memory_efficient_attention` if you need to"
            )

    def list_with_heads(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the tensors with one dimension for heads."""
        if self.query.ndim == 3:
            return self.query.unsqueeze(2), self.key.unsqueeze(2), self.value.unsqueeze(2)
        if self.query.ndim == 5:
            return self.query.flatten(2, 3), self.key.flatten(2, 3), self.value.flatten(2, 3)
        return self.query, self.key, self.value

    def make_bias(self) -> Tensor | None:
        """Return the bias as a tensor that broadcasts to (batch, heads, queries, keys)."""
        bias, query = self.attn_bias, self.query
        if isinstance(bias, AttentionBias):
            shape: tuple[int, ...] = (query.shape[1], self.key.shape[1])
            if isinstance(bias, LowerTriangularMaskWithTensorBias):
                shape = tuple(bias._bias.shape)
            bias = bias.materialize(shape, torch.float32, query.device)
        if bias is None:
            return None
        if bias.ndim == 5:
            return bias.flatten(1, 2)
        return bias.unsqueeze(1) if bias.ndim == 3 else bias
