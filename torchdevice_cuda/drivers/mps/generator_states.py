"""States of the Apple GPU's generator in CUDA's format: 16 bytes, a seed and an offset.

torch stores 44 bytes: seven words of its engine, the seed and the offset. Two of the words are the seed, one never
changes, and every draw computes the other four from seed and offset before it reads them: so seed and offset suffice.
(Read in the wheels of 2.6, 2.13 and 2.15.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

#: A CUDA generator's state: a seed and an offset; in older releases a seed only.
_SIZES = (16, 8)
#: CUDA counts words of 32 bits, MPS counts Philox results, which have four of them.
_UNIT = 4
_ALL = 1 << 64


def _own(generator: Any) -> Any:
    """Return torch's generator, if the program sees another."""
    return getattr(generator, "own", generator)


def offset(generator: torch.Generator) -> int:
    """Return a generator's offset, in CUDA's units."""
    return int(_own(generator).get_offset()) * _UNIT


def set_offset(generator: torch.Generator, wanted: int) -> None:
    """Set a generator's offset in CUDA's units; torch refuses values that are not numbers."""
    if isinstance(wanted, int):
        if wanted % _UNIT:
            raise RuntimeError("offset must be a multiple of 4")
        if -(_ALL >> 1) <= wanted < _ALL:
            wanted = wanted % _ALL // _UNIT
    _own(generator).set_offset(wanted)


def state(generator: torch.Generator) -> torch.Tensor:
    """Return a generator's state in CUDA's format; in torch's own if the offset exceeds CUDA's range."""
    import torch

    advanced = offset(generator)
    if advanced >= _ALL:
        kept: torch.Tensor = _own(generator).get_state()
        return kept
    words = (_own(generator).initial_seed(), advanced)
    signed = [word - _ALL if word >= _ALL >> 1 else word for word in words]
    return torch._C._VariableFunctions.tensor(signed, dtype=torch.int64, device="cpu").view(torch.uint8)


def set_state(generator: torch.Generator, given: torch.Tensor) -> None:
    """Restore a generator from CUDA's state or from torch's own; torch raises for any other."""
    import torch

    own = _own(generator)
    sized = isinstance(given, torch.Tensor) and given.dtype is torch.uint8 and given.numel() in _SIZES
    if not sized or given.device.type != "cpu" or not given.is_contiguous():
        own.set_state(given)
        return
    words = given.reshape(-1).view(torch.int64).tolist()
    wanted = words[1] if len(words) > 1 else 0
    if wanted % _UNIT:
        raise RuntimeError("offset must be a multiple of 4")
    own.manual_seed(words[0])
    set_offset(generator, wanted)
