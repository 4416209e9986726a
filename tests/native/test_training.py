"""Training on the virtual GPU, against the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

import pytest
import torch
from harness import child
from torch import nn

from .bare import bare

pytestmark = child(bare())


class _Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn, self.head = kind(6, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(x)[0][:, -1])


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(6, 2, 16, dropout=0.0, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean(1))


def _convolutional() -> nn.Module:
    model = nn.Sequential(
        nn.Unflatten(1, (1, 5)),
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, groups=4),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.LazyLinear(3),
    )
    model(torch.rand(4, 5, 6))
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "convolutions": _convolutional,
    "lstm": lambda: _Recurrent(nn.LSTM),
    "gru": lambda: _Recurrent(nn.GRU),
    "rnn": lambda: _Recurrent(nn.RNN),
    "attention": _Attention,
}
OPTIMIZERS: dict[str, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]] = {
    "momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
    "fused": lambda p: torch.optim.Adam(p, fused=True),
    "foreach": lambda p: torch.optim.AdamW(p, foreach=True),
    "adagrad": lambda p: torch.optim.Adagrad(p),
}


def _losses(model: nn.Module, optimizer: str, device: str) -> list[float]:
    model = copy.deepcopy(model).to(device)
    torch.manual_seed(1)
    x, y = torch.rand(4, 5, 6).to(device), torch.randint(3, (4,)).to(device)
    stepping, losses = OPTIMIZERS[optimizer](model.parameters()), []
    for _ in range(4):
        stepping.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        stepping.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", MODELS)
def test_losses_are_the_cpus(model: str, optimizer: str) -> None:
    torch.manual_seed(0)
    made = MODELS[model]()
    assert _losses(made, optimizer, "cuda") == pytest.approx(_losses(made, optimizer, "cpu"), rel=1e-4, abs=1e-5)


def test_mixed_precision() -> None:
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    model = nn.Linear(2, 2).cuda()
    before = model.weight.tolist()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with torch.autocast("cuda", torch.float16):
        out = model(torch.ones(1, 2, device="cuda"))
    assert out.dtype is torch.float16
    scaler.scale(out.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert model.weight.tolist() != before
