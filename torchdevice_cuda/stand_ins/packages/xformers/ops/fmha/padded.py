"""Masks of sequences whose keys have gaps between them: padded, anywhere, or in pages."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from .bands import AttentionBias, Device, Shape, make_band
from .blocks import Blocks, CausalBlocks
from .sequences import _GappySeqInfo, _PaddedSeqLenInfo, _SeqLenInfo, choose_device


@dataclasses.dataclass
class BlockDiagonalPaddedKeysMask(Blocks):
    """Sequences of keys in places of one size."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: _PaddedSeqLenInfo

    @classmethod
    def from_seqlens(
        cls,
        q_seqlen: Sequence[int],
        kv_padding: int,
        kv_seqlen: Sequence[int],
        causal_diagonal: Any = None,
        *,
        device: torch.device | None = None,
    ) -> Any:
        """Create it from lengths and the size of a place."""
        return cls(*_describe(q_seqlen, kv_padding, kv_seqlen, device))

    def make_paged(self, block_tables: Tensor, page_size: int, paged_type: Any) -> Any:
        """Return it for keys in pages."""
        keys = dataclasses.replace(self.k_seqinfo, padding=block_tables.shape[1] * page_size)
        return paged_type(self.q_seqinfo, keys, block_tables, page_size)

    def make_local_attention(self, window_left: int, window_right: int) -> BlockDiagonalLocalAttentionPaddedKeysMask:
        """Return it with a window."""
        return BlockDiagonalLocalAttentionPaddedKeysMask(self.q_seqinfo, self.k_seqinfo, window_left, window_right)


def _describe(
    q_seqlen: Sequence[int], padding: int, kv_seqlen: Sequence[int], device: torch.device | None = None
) -> tuple[_SeqLenInfo, _PaddedSeqLenInfo]:
    assert len(q_seqlen) == len(kv_seqlen), (q_seqlen, kv_seqlen)
    queries: _SeqLenInfo = _SeqLenInfo.from_seqlens(q_seqlen, device=device)
    return queries, _PaddedSeqLenInfo.from_seqlens_padded(kv_seqlen, padding, device=device)


@dataclasses.dataclass
class BlockDiagonalCausalWithOffsetPaddedKeysMask(CausalBlocks, BlockDiagonalPaddedKeysMask):
    """Causal sequences, by distances from the last query and key."""

    causal_diagonal: Any = None


@dataclasses.dataclass
class BlockDiagonalLocalAttentionPaddedKeysMask(BlockDiagonalPaddedKeysMask):
    """Sequences with a window, by distances from the last query and key."""

    window_left: int
    window_right: int

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        return make_band(shape, dtype, device, self.window_left, self.window_right, True)

    @classmethod
    def from_seqlens_local(
        cls, q_seqlen: Sequence[int], kv_padding: int, kv_seqlen: Sequence[int], window_left: int, window_right: int
    ) -> Any:
        """Create it from lengths, the size of a place, and a window."""
        return cls(*_describe(q_seqlen, kv_padding, kv_seqlen), window_left, window_right)


@dataclasses.dataclass
class BlockDiagonalCausalLocalAttentionPaddedKeysMask(BlockDiagonalPaddedKeysMask):
    """Causal sequences with a window, by distances from the last query and key."""

    _window_size: int

    def _create_block_mask(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        return make_band(shape, dtype, device, self._window_size - 1, 0, True)

    @classmethod
    def from_seqlens_local(
        cls, q_seqlen: Sequence[int], kv_padding: int, kv_seqlen: Sequence[int], window_size: int
    ) -> Any:
        """Create it from lengths, the size of a place, and a window."""
        return cls(*_describe(q_seqlen, kv_padding, kv_seqlen), window_size)


@dataclasses.dataclass
class BlockDiagonalGappyKeysMask(Blocks):
    """Sequences of keys that begin anywhere."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: _GappySeqInfo

    @classmethod
    def from_seqlens(
        cls,
        q_seqlen: Sequence[int],
        kv_seqstarts: Sequence[int],
        kv_seqlen: Sequence[int],
        *,
        device: torch.device | None = None,
    ) -> Any:
        """Create it from lengths and starts; the last start is the number of keys."""
        assert len(q_seqlen) == len(kv_seqlen), (q_seqlen, kv_seqlen)
        place = choose_device(device)
        keys = _GappySeqInfo.from_seqlens_gappy(kv_seqstarts, kv_seqlen, False, device=place)
        return cls(_SeqLenInfo.from_seqlens(q_seqlen, device=place), keys)

    def make_paged(self, block_tables: Tensor, page_size: int, notional_padding: int, paged_type: Any) -> Any:
        """Return it for keys in pages, of which each sequence has those of so many keys."""
        if notional_padding % page_size:
            raise ValueError(
                "Notional padding should be divisible by the page size,"
                f" but got notional_padding={notional_padding}, page_size={page_size}."
            )
        info = self.k_seqinfo
        starts = [start - number * notional_padding for number, start in enumerate(info.seqstart_py[:-1])]
        row = block_tables.shape[1] * page_size
        assert all(0 <= start < row for start in starts), f"max_row_len={row} new_seqstarts_py={starts}"
        keys = _GappySeqInfo.from_seqlens_gappy(starts, info.seqlen_py, True, device=info.seqlen.device)
        return paged_type(self.q_seqinfo, keys, block_tables, page_size)


@dataclasses.dataclass
class BlockDiagonalCausalWithOffsetGappyKeysMask(CausalBlocks, BlockDiagonalGappyKeysMask):
    """Causal sequences, by distances from the last query and key."""


# -------------------------------------------------------------------------------------- pages
class _Pages(AttentionBias):
    """Keys in pages, which a table gives for each sequence."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: Any
    block_tables: Tensor
    page_size: int
    _UNPAGED_TYPE: ClassVar[Any]

    def _list_keys(self) -> Any:
        """Return the keys of the sequences as if their pages were one behind the other."""
        raise NotImplementedError

    def materialize(self, shape: Shape, dtype: torch.dtype = torch.float32, device: Device = "cpu") -> Tensor:
        """Return the bias as a tensor, for all pages that are in use."""
        batch, pages = self.block_tables.shape
        row = pages * self.page_size
        plain = self._UNPAGED_TYPE(self.q_seqinfo, self._list_keys())
        logical = plain.materialize((shape[-2], batch * row), dtype, device)
        keys = max(int(self.block_tables.max().item() + 1) * self.page_size, shape[-1])
        mask = torch.full((shape[-2], keys), -math.inf, dtype=dtype, device=device)
        within = torch.arange(self.page_size, device=device)
        for number, (start, end) in enumerate(self.q_seqinfo.intervals()):
            used = self.block_tables[number].to(device).long()
            place = (used[:, None] * self.page_size + within).flatten()
            mask[start:end, place] = logical[start:end, number * row : (number + 1) * row]
        return mask.expand(*shape[:-1], keys)


@dataclasses.dataclass
class PagedBlockDiagonalPaddedKeysMask(_Pages):
    """Sequences of keys in pages."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: _PaddedSeqLenInfo
    block_tables: Tensor
    page_size: int
    _UNPAGED_TYPE: ClassVar[Any] = BlockDiagonalPaddedKeysMask

    def _list_keys(self) -> Any:
        row = self.block_tables.shape[1] * self.page_size
        lengths, device = self.k_seqinfo.seqlen_py, self.k_seqinfo.seqlen.device
        return _PaddedSeqLenInfo.from_seqlens_padded(lengths, row, device=device)

    @classmethod
    def from_seqlens(
        cls,
        q_seqlen: Sequence[int],
        kv_seqlen: Sequence[int],
        block_tables: Tensor,
        page_size: int,
        *,
        device: torch.device | None = None,
    ) -> Any:
        """Create it from lengths and the table of pages."""
        row = block_tables.shape[1] * page_size
        return cls(*_describe(q_seqlen, row, kv_seqlen, device), block_tables, page_size)


@dataclasses.dataclass
class PagedBlockDiagonalCausalWithOffsetPaddedKeysMask(PagedBlockDiagonalPaddedKeysMask):
    """Causal sequences, by distances from the last query and key."""

    _UNPAGED_TYPE: ClassVar[Any] = BlockDiagonalCausalWithOffsetPaddedKeysMask


@dataclasses.dataclass
class PagedBlockDiagonalGappyKeysMask(_Pages):
    """Sequences of keys in pages, of which the first may be unused."""

    q_seqinfo: _SeqLenInfo
    k_seqinfo: _GappySeqInfo
    block_tables: Tensor
    page_size: int
    _UNPAGED_TYPE: ClassVar[Any] = BlockDiagonalGappyKeysMask

    def _list_keys(self) -> Any:
        row, info = self.block_tables.shape[1] * self.page_size, self.k_seqinfo
        pairs = list(zip(info.seqstart_py, info.seqlen_py, strict=False))
        starts = [number * row + start for number, (start, _) in enumerate(pairs)]
        lengths = [end - start for start, end in pairs]
        starts.append(len(pairs) * row)
        return _GappySeqInfo.from_seqlens_gappy(starts, lengths, False, device=info.seqlen.device)

    @classmethod
    def from_seqlens(
        cls,
        q_seqlen: Sequence[int],
        kv_seqstarts: Sequence[int],
        kv_seqlen: Sequence[int],
        block_tables: Tensor,
        page_size: int,
        *,
        device: torch.device | None = None,
    ) -> Any:
        """Create it from lengths, starts within each sequence's pages, and the table of pages."""
        assert len(q_seqlen) == len(kv_seqlen) == len(kv_seqstarts), (q_seqlen, kv_seqlen, kv_seqstarts)
        place = block_tables.device if device is None else device
        keys = _GappySeqInfo.from_seqlens_gappy(kv_seqstarts, kv_seqlen, True, device=place)
        return cls(_SeqLenInfo.from_seqlens(q_seqlen, device=place), keys, block_tables, page_size)


@dataclasses.dataclass
class PagedBlockDiagonalCausalWithOffsetGappyKeysMask(PagedBlockDiagonalGappyKeysMask):
    """Causal sequences, by distances from the last query and key."""

    _UNPAGED_TYPE: ClassVar[Any] = BlockDiagonalCausalWithOffsetGappyKeysMask
