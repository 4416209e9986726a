"""Numbers beside half precision: CUDA does not round them first, and what an H200 made of them is made here."""

from __future__ import annotations

import pytest
import torch
from harness import VIRTUAL, child
from recorded import find_differences, numbers

HALVES = [str(dtype)[6:] for dtype in numbers.HALVES]


@child(VIRTUAL)
@pytest.mark.parametrize("kind", HALVES)
def test_as_on_an_h200(kind: str) -> None:
    wrong = find_differences(numbers, lambda name: name.startswith(kind))
    assert not wrong, (len(wrong), dict(list(wrong.items())[:5]))


@child(VIRTUAL)
@pytest.mark.parametrize("kind", HALVES)
def test_sums_of_every_half_are_rounded_once(kind: str) -> None:
    """In one pass, with a rest that fills no vector, in whatever order elements lie."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(getattr(torch, kind))
    for x in (every, every[3:-2], every.view(256, 256).t(), every[::2]):
        there, wide = x.cuda(), x.float()
        for n in (0.42, -65504.7, 1e-8, float("inf")):
            number = torch.tensor(n, dtype=torch.float32)
            for made, wanted in (
                (there + n, wide + number),
                (there - n, wide - number),
                (n - there, number - wide),
                (torch.add(number, there), wide + number),
                (there.clone().sub_(n), wide - number),
            ):
                assert made.stride() == torch.empty_like(there).stride()
                assert torch.equal(made.cpu().nan_to_num(7.0), wanted.to(x.dtype).nan_to_num(7.0)), n
