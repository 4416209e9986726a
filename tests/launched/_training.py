"""The training that every program here does, and what it gives in one process without a launcher."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

sys.path.append(str(Path(__file__).parents[1] / "clients"))
import _torchvision  # noqa: E402, F401 (before any library that imports torchvision)

SAMPLES, BATCH, EPOCHS, RATE = 64, 8, 3, 0.05
#: Where rank 0 says what came of it: launchers mix what processes print.
RESULT = os.environ.get("LAUNCHED_RESULT", "")


def make_model() -> nn.Module:
    """Create a model that is equal in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))


def make_data() -> TensorDataset:
    """Create data of which a step takes the same samples, however many processes share them."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(SAMPLES, 6, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True).sin())


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Plain: what is summed in another order stays close."""
    return torch.optim.SGD(model.parameters(), lr=RATE)


def report(parameters: Iterable[torch.Tensor], **facts: object) -> None:
    """For rank 0, at the end."""
    weights = [number for parameter in parameters for number in parameter.detach().cpu().flatten().tolist()]
    with open(RESULT, "w", encoding="utf-8") as file:
        json.dump({"weights": weights, **facts}, file)


def expected() -> list[float]:
    """Return the weights that one process gets on the CPU."""
    model, data = make_model(), make_data()
    optimizer = optimizer_of(model)
    for _ in range(EPOCHS):
        for start in range(0, SAMPLES, BATCH):
            x, y = data[start : start + BATCH]
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    return [number for parameter in model.parameters() for number in parameter.flatten().tolist()]
