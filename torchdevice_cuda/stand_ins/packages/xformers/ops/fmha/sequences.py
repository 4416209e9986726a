"""Sequences of different lengths in one dimension: where each begins and ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

_Info = TypeVar("_Info", bound="_SeqLenInfo")


def choose_device(device: torch.device | None) -> torch.device:
    """Return a device, by default the GPU."""
    return torch.device("cuda") if device is None else device


def _count(numbers: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int32, device=device)


@dataclasses.dataclass
class _SeqLenInfo:
    """Sequences one behind the other."""

    seqstart: Tensor
    max_seqlen: int
    min_seqlen: int
    seqstart_py: list[int]

    def to(self: _Info, device: torch.device) -> _Info:
        """Return it with its tensors on a device."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        moved: dict[str, Any] = {n: value.to(device) for n, value in fields.items() if isinstance(value, Tensor)}
        return dataclasses.replace(self, **moved)

    def intervals(self) -> Iterator[tuple[int, int]]:
        """List the first position of each sequence, and the one behind its last."""
        yield from zip(self.seqstart_py, self.seqstart_py[1:], strict=False)

    @classmethod
    def from_seqlens(cls, seqlens: Iterable[int], *, device: torch.device | None = None) -> Any:
        """Create it from the lengths."""
        lengths, starts = list(seqlens), [0]
        for length in lengths:
            starts.append(starts[-1] + length)
        ends = max(lengths, default=-1), min(lengths, default=-1)
        return cls(_count(starts, choose_device(device)), *ends, starts)

    def split(self, x: Tensor, batch_sizes: Sequence[int] | None = None) -> list[Tensor]:
        """Return the sequences of a tensor, of `batch_sizes` sequences each."""
        if self.seqstart_py[-1] != x.shape[1] or x.shape[0] != 1:
            raise ValueError(
                f"Invalid `torch.Tensor` of shape {x.shape}, expected format "
                f"(B, M, *) with B=1 and M={self.seqstart_py[-1]}\n"
                f" seqstart: {self.seqstart_py}"
            )
        sizes = [1] * (len(self.seqstart_py) - 1) if batch_sizes is None else batch_sizes
        ends = [0]
        for size in sizes:
            ends.append(ends[-1] + size)
        starts = [self.seqstart_py[end] for end in ends]
        parts = zip(sizes, starts, starts[1:], strict=False)
        return [x[:, start:end].reshape(size, -1, *x.shape[2:]) for size, start, end in parts]


class _Used:
    """Sequences that do not fill their places."""

    seqstart_py: list[int]
    seqlen_py: Sequence[int]

    def intervals(self) -> Iterator[tuple[int, int]]:
        """List the first position of each sequence, and the one behind its last."""
        for start, length in zip(self.seqstart_py, self.seqlen_py, strict=False):
            yield start, start + length


@dataclasses.dataclass
class _PaddedSeqLenInfo(_Used, _SeqLenInfo):
    """Sequences in places of one size."""

    seqlen: Tensor
    seqlen_py: Sequence[int]
    padding: int

    @classmethod
    def from_seqlens_padded(
        cls, seqlens: Sequence[int], padding: int, *, device: torch.device | None = None
    ) -> _PaddedSeqLenInfo:
        """Create it from the lengths and the size of a place."""
        lengths = list(seqlens)
        assert all(length <= padding for length in lengths), f"Seqlens {lengths} Padding {padding}"
        place = choose_device(device)
        starts = [padding * number for number in range(len(lengths) + 1)]
        ends = max(lengths), min(lengths)
        return cls(_count(starts, place), *ends, starts, _count(lengths, place), lengths, padding)


@dataclasses.dataclass
class _GappySeqInfo(_Used, _SeqLenInfo):
    """Sequences that begin anywhere. Of pages, the starts are within a sequence's own, and lengths its ends."""

    seqlen: Tensor
    seqlen_py: Sequence[int]

    @classmethod
    def from_seqlens_gappy(
        cls, seqstarts: Sequence[int], seqlens: Sequence[int], paged: bool, *, device: torch.device
    ) -> _GappySeqInfo:
        """Create it from the starts and the lengths."""
        starts, lengths = list(seqstarts), list(seqlens)
        if not lengths:
            raise ValueError("No elements")
        if len(starts) - len(lengths) != (0 if paged else 1):
            raise ValueError(f"len(seqstarts)={starts} should be len(seqlens)={lengths}")
        ends = max(lengths), min(lengths)
        if paged:
            lengths = [start + length for start, length in zip(starts, lengths, strict=True)]
            starts.append(-1)
        return cls(_count(starts, device), *ends, starts, _count(lengths, device), lengths)
