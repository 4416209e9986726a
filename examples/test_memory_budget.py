"""Tests that a step fits into a budget, on a GPU that is as small as one likes.

pytest --torchdevice --torchdevice-driver virtual --torchdevice-memory 256MiB examples/test_memory_budget.py
"""

import pytest
import torch
from torch import nn

MIB = 2**20


def step(batch: int) -> int:
    """Train once; the most that was allocated for it."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
    model(torch.randn(batch, 1024, device="cuda")).sum().backward()
    return torch.cuda.max_memory_allocated() - before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_stays_within_its_budget() -> None:
    # 14 MiB of tensors. On a real GPU cuBLAS keeps a workspace besides: 64 MiB in all on an H200.
    assert step(256) < 96 * MIB


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_memory_grows_with_the_batch() -> None:
    assert step(2048) > 1.5 * step(512)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_does_not_fit_says_so() -> None:
    total = torch.cuda.get_device_properties(0).total_memory
    with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory. Tried to allocate"):
        torch.empty(total + MIB, dtype=torch.uint8, device="cuda")
