"""Code that the client programs share: their device, their expectations of it, and their report.

The programs are written for CUDA; ``CLIENT_DEVICE=cpu`` runs the same program on stock torch for comparison.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from typing import Any

import _torchvision  # noqa: F401 (before any library that imports torchvision)
import torch

DEVICE = os.environ.get("CLIENT_DEVICE", "cuda")
ON_CUDA = DEVICE.startswith("cuda")
#: Set where a tensor on the device truly says "cuda".
IDENTITY = os.environ.get("CLIENT_IDENTITY") == "cuda"

if ON_CUDA:
    assert torch.cuda.is_available(), "this program was written for CUDA"
    assert torch.cuda.device_count() >= 1


def seed(value: int = 0) -> None:
    """Seed the CPU and every CUDA device."""
    torch.manual_seed(value)
    torch.cuda.manual_seed_all(value)


def expect_on_device(*tensors: torch.Tensor) -> None:
    """Tensors that were sent to the device say so, where the device's identity is real."""
    for tensor in tensors:
        if ON_CUDA and IDENTITY:
            assert tensor.is_cuda, tensor.device
            assert tensor.device.type == "cuda", tensor.device
            assert tensor.get_device() == 0


def expect_device(device: torch.device) -> None:
    """A device read from an object of the program, which reads it from its tensors, is the one it was sent to."""
    if not ON_CUDA or IDENTITY:
        assert torch.device(device).type == torch.device(DEVICE).type, device


def expect_falling(losses: Sequence[float]) -> list[float]:
    """Losses are finite and training lowers them."""
    losses = [float(loss) for loss in losses]
    assert all(math.isfinite(loss) for loss in losses), losses
    assert losses[-1] < losses[0], losses
    return losses


def expect_memory_figures() -> None:
    """The memory statistics answer, and make sense together."""
    if not ON_CUDA:
        return
    torch.cuda.synchronize()
    assert 0 <= torch.cuda.memory_allocated() <= torch.cuda.max_memory_allocated()
    assert 0 <= torch.cuda.memory_reserved() <= torch.cuda.max_memory_reserved()
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    torch.cuda.empty_cache()


def report(**results: Any) -> None:
    """Print the results; what is under ``float32`` must equal stock torch's on the CPU."""
    print("RESULT " + json.dumps(results), flush=True)
