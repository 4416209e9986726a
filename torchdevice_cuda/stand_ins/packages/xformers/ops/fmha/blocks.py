"""Masks of several sequences one behind the other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .bands import AttentionBias, Device, Shape, check_window, make_band
from .sequences import _SeqLenInfo


class Blocks(AttentionBias):
    """Sequences of queries that attend to their own keys."""

    q_seqinfo: Any
    k_seqinfo: Any

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias of one sequence."""
        return torch.zeros(shape, dtype=dtype, device=device)

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor."""
        if shape[-1] != self.k_seqinfo.seqstart_py[-1]:
            raise ValueError("k shapes wrong")
        if shape[-2] != self.q_seqinfo.seqstart_py[-1]:
            raise ValueError("q shapes wrong")
        mask = torch.full(shape[-2:], -math.inf, dtype=dtype, device=device)
        for (q0, q1), (k0, k1) in zip(self.q_seqinfo.intervals(), self.k_seqinfo.intervals(), strict=False):
            mask[q0:q1, k0:k1] = self._create_block_mask((q1 - q0, k1 - k0), dtype, device)
        return mask.expand(shape)


class CausalBlocks(Blocks):
    """Those of which each is causal, by distances from the last query and key."""

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        return make_band(shape, dtype, device, None, 0, True)


@dataclasses.dataclass
class BlockDiagonalMask(Blocks):
    """Sequences one behind the other."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: _SeqLenInfo
    _batch_sizes: Sequence[int] | None = None

    @classmethod
    def from_seqlens(
        cls, q_seqlen: Sequence[int], kv_seqlen: Sequence[int] | None = None, *, device: torch.device | None = None
    ) -> Any:
        """Create it from lengths."""
        assert kv_seqlen is None or len(q_seqlen) == len(kv_seqlen)
        q_seqinfo = _SeqLenInfo.from_seqlens(q_seqlen, device=device)
        is_one = kv_seqlen is None or list(q_seqlen) == list(kv_seqlen)
        return cls(q_seqinfo, q_seqinfo if is_one else _SeqLenInfo.from_seqlens(kv_seqlen or (), device=device))

    @classmethod
    def from_tensor_list(cls, tensors: Sequence[Tensor]) -> Any:
        """Create it from sequences; return it and the tensor of all."""
        made, joined, _, _ = cls.from_tensor_lists_qkv(tensors, tensors)
        return made, joined

    @classmethod
    def from_tensor_lists_qkv(
        cls, tensors_q: Sequence[Tensor], tensors_k: Sequence[Tensor], tensors_v: Sequence[Tensor] | None = None
    ) -> Any:
        """Create it from queries, keys and values; return it and the tensors of all."""
        assert len(tensors_q) == len(tensors_k)
        assert tensors_v is None or len(tensors_v) == len(tensors_q)
        lengths = [[x.shape[1] for x in tensors for _ in range(x.shape[0])] for tensors in (tensors_q, tensors_k)]
        made = cls.from_seqlens(*lengths, device=tensors_q[0].device)
        made._batch_sizes = [x.shape[0] for x in tensors_q]
        lists = (tensors_q, tensors_k, tensors_v)
        return made, *(
            None if tensors is None else torch.cat([x.reshape(1, -1, *x.shape[2:]) for x in tensors], 1)
            for tensors in lists
        )

    def split_queries(self, tensor: Tensor) -> list[Tensor]:
        """Return the sequences of queries."""
        return self.q_seqinfo.split(tensor, self._batch_sizes)

    def split_kv(self, tensor: Tensor) -> list[Tensor]:
        """Return the sequences of keys."""
        return self.k_seqinfo.split(tensor, self._batch_sizes)

    def split(self, tensor: Tensor) -> list[Tensor]:
        """Return the sequences, if queries and keys have the same."""
        assert self.q_seqinfo is self.k_seqinfo
        return self.split_queries(tensor)

    def _convert(self, kind: Any, **more: int) -> Any:
        return kind(self.q_seqinfo, self.k_seqinfo, self._batch_sizes, **more)

    def make_causal(self) -> Any:
        """Return it with causal sequences."""
        return self._convert(BlockDiagonalCausalMask)

    def make_causal_from_bottomright(self) -> Any:
        """Return it with causal sequences, by distances from the last query and key."""
        return self._convert(BlockDiagonalCausalFromBottomRightMask)

    def make_local_attention(self, window_size: int) -> Any:
        """Return it with causal sequences and a window."""
        return self._convert(BlockDiagonalCausalLocalAttentionMask, _window_size=window_size)

    def make_local_attention_from_bottomright(self, window_size: int) -> Any:
        """Return it with causal sequences and a window, by distances from the last query and key."""
        return self._convert(BlockDiagonalCausalLocalAttentionFromBottomRightMask, _window_size=window_size)


@dataclasses.dataclass
class BlockDiagonalCausalMask(BlockDiagonalMask):
    """Causal sequences, by distances from the first query and key."""

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        return make_band(shape, dtype, device, None, 0, False)


@dataclasses.dataclass
class BlockDiagonalCausalFromBottomRightMask(CausalBlocks, BlockDiagonalMask):
    """Causal sequences, by distances from the last query and key."""

    def __post_init__(self) -> None:
        pairs = zip(self.q_seqinfo.intervals(), self.k_seqinfo.intervals(), strict=False)
        for number, ((q0, q1), (k0, k1)) in enumerate(pairs):
            if k1 - k0 < q1 - q0:
                raise ValueError(
                    f"Block #{number} has num_keys={k1 - k0} and num_queries={q1 - q0}."
                    " Expected `num_keys >= num_queries`"
                )


@dataclasses.dataclass
class BlockDiagonalCausalLocalAttentionMask(BlockDiagonalCausalMask):
    """Causal sequences with a window, by distances from the first query and key."""

    _window_size: int = 0

    def __post_init__(self) -> None:
        check_window(self._window_size)
        for (q0, q1), (k0, k1) in zip(self.q_seqinfo.intervals(), self.k_seqinfo.intervals(), strict=False):
            if q1 - q0 - self._window_size >= k1 - k0:
                raise RuntimeError(
                    f"No keys are attended in q_seqlen {q1 - q0} k_seqlen {k1 - k0} "
                    f"with sliding window {self._window_size}"
                )

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        return make_band(shape, dtype, device, self._window_size - 1, 0, False)


@dataclasses.dataclass
class BlockDiagonalCausalLocalAttentionFromBottomRightMask(BlockDiagonalCausalFromBottomRightMask):
    """Causal sequences with a window, by distances from the last query and key."""

    _window_size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_window(self._window_size)

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        return make_band(shape, dtype, device, self._window_size - 1, 0, True)
