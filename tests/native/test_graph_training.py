"""Training from CUDA graphs: the same bits as without."""

from __future__ import annotations

import warnings

import pytest
import torch
from harness import CPU, MPS_FAITHFUL, VIRTUAL, Place, child
from torch import nn

from .test_graphs import captured

pytestmark = child(VIRTUAL, CPU, MPS_FAITHFUL)


def test_graphed_callables() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 2)).cuda()
    graphed = torch.cuda.make_graphed_callables(model, (torch.randn(5, 3, device="cuda", requires_grad=True),))
    plain.load_state_dict(model.state_dict())
    for _ in range(3):
        x = torch.randn(5, 3, device="cuda")
        results = []
        for network in (graphed, plain):
            network.zero_grad()
            given = x.clone().requires_grad_()
            y = network(given)
            y.square().sum().backward()
            results.append([y.detach().clone(), given.grad, *(p.grad.clone() for p in network.parameters())])
        assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), plain.buffers(), strict=True))


class _Training:
    """A model in training, of which every step can be captured."""

    def __init__(self, amp: bool) -> None:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.1)
        self.model = nn.Sequential(
            nn.Conv1d(3, 16, 3, padding=1), nn.BatchNorm1d(16), nn.Flatten(2), layer_of(layer), nn.Linear(128, 5)
        ).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2, capturable=True, fused=amp)
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp, init_scale=1024.0)
        self.amp = amp
        self.x, self.y = torch.rand(4, 3, 8, device="cuda"), torch.randint(5, (4,), device="cuda")

    def step(self) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=self.amp, cache_enabled=False):
            loss = nn.functional.cross_entropy(self.model(self.x), self.y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss

    def state(self) -> list[torch.Tensor]:
        return [*self.model.parameters(), *self.model.buffers(), self.optimizer.state_dict()["state"][0]["step"]]


def layer_of(layer: nn.Module) -> nn.Module:
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.transpose(1, 2)).flatten(1)

    return Turned()


@pytest.mark.parametrize("amp", [False, True])
def test_a_captured_training_step_is_the_eager_one(amp: bool, place: Place) -> None:
    """Bit for bit over fifty steps, with dropout; memory does not grow."""
    eager, captive = _Training(amp), _Training(amp)
    torch.manual_seed(1)
    losses = [eager.step().detach().clone() for _ in range(53)]
    torch.manual_seed(1)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            captive.step()
    graph, loss = captured(captive.step)
    books = []
    for i, expected in enumerate(losses[3:]):
        graph.replay()
        assert torch.equal(loss, expected), i
        books.append(torch.cuda.memory_allocated())
    assert all(torch.equal(a, b) for a, b in zip(eager.state(), captive.state(), strict=True))
    assert max(books) == books[0] or place == CPU, "there it is all of the process's memory"
