"""Modules whose parameters have no shape until they are first called move like any other."""

from __future__ import annotations

import pytest
import torch
from harness import ChildConfig, together


def lazy_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.LazyLinear(1))


def losses(device: str) -> list[float]:
    """Return the losses of a lazy model that starts from known weights."""
    model = lazy_model().float().to(device)
    x = torch.linspace(-1, 1, 12, device=device).reshape(4, 3)
    model(x)
    with torch.no_grad():
        for parameter in model.parameters():
            values = torch.linspace(-0.5, 0.5, parameter.numel(), device=device)
            parameter.copy_(values.reshape(parameter.shape))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def kinds() -> list[str]:
    """List the types of the parameters of a lazy model after it was moved."""
    return [type(parameter).__name__ for parameter in lazy_model().cuda().float().to("cuda").parameters()]


def losses_on_cuda() -> list[float]:
    return losses("cuda")


def test_a_lazy_model_stays_lazy_when_it_moves(place: ChildConfig) -> None:
    assert together(place, [kinds, losses_on_cuda])["kinds"].checked() == ["UninitializedParameter"] * 4


def test_a_lazy_model_trains(place: ChildConfig) -> None:
    """As under stock torch, which is what the tests themselves run on."""
    found = together(place, [kinds, losses_on_cuda])["losses_on_cuda"].checked()
    assert found == pytest.approx(losses("cpu"), rel=1e-5)
