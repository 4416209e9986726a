"""The training steps that `timing.py` times."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from recorded._timing_calls import Call, draw


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.qkv, self.out, self.up, self.down = (
            nn.Linear(d, 3 * d),
            nn.Linear(d, d),
            nn.Linear(d, 4 * d),
            nn.Linear(4 * d, d),
        )
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, s, d = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    """A language model with a vocabulary of 32,000, whose embedding and head are separate."""

    def __init__(self, d: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32000, d)
        self.blocks = nn.Sequential(*(Block(d, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 32000, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.blocks(self.embedding(tokens))))


def make_residual(inner: int, outer: int, stride: int) -> nn.Module:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.a, self.b = nn.BatchNorm2d(outer), nn.BatchNorm2d(outer)
            self.down: nn.Module = nn.Identity()
            if stride > 1 or inner != outer:
                self.down = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = functional.relu(self.a(self.first(x)), inplace=True)
            return functional.relu(self.b(self.second(y)) + self.down(x), inplace=True)

    return Residual()


def make_resnet(depths: tuple[int, ...] = (2, 2, 2, 2)) -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(True),
        nn.MaxPool2d(3, 2, 1),
    ]
    width = 64
    for i, depth in enumerate(depths):
        for j in range(depth):
            layers.append(make_residual(width, 64 << i, 2 if i and not j else 1))
            width = 64 << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


class Lstm(nn.Module):
    """Two layers of LSTM over an embedding, and a head."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.embedding, self.lstm, self.head = (
            nn.Embedding(10000, d),
            nn.LSTM(d, d, 2, batch_first=True),
            nn.Linear(d, 10000),
        )

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


def make_step(model: nn.Module, optimizer: Any, inputs: torch.Tensor, targets: torch.Tensor, amp: bool) -> Call:
    model.cuda()
    stepping = optimizer(model.parameters())

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16, enabled=amp):
            out = model(inputs)
            loss = functional.cross_entropy(out.flatten(0, -2).float(), targets.flatten())
        stepping.zero_grad(set_to_none=True)
        loss.backward()
        stepping.step()

    return step


def make_training(name: str, shape: str, amp: str) -> Call:
    words = shape.split()
    sizes = [int(s) for s in words[0].split("x")]
    numbers = {word[0]: int(word[1:]) for word in words[1:]}
    on = amp == "amp=True"
    if name == "gpt step":
        model: nn.Module = Gpt(numbers["d"], numbers["h"], numbers["n"])
        tokens = torch.randint(0, 32000, sizes, device="cuda")
        return make_step(model, torch.optim.AdamW, tokens, tokens, on)
    if name == "lstm step":
        tokens = torch.randint(0, 10000, sizes, device="cuda")
        return make_step(Lstm(numbers["d"]), torch.optim.Adam, tokens, tokens, on)
    labels = torch.randint(0, 1000, sizes[:1], device="cuda")
    descend = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
    if name == "mlp step":
        w, batch = sizes[0], 128
        model = nn.Sequential(nn.Linear(w, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 10))
        return make_step(
            model, torch.optim.Adam, draw("f32", batch, w), torch.zeros(batch, dtype=torch.int64, device="cuda"), on
        )
    depths = {"resnet18 step": (2, 2, 2, 2), "resnet34 step": (3, 4, 6, 3)}[name]
    return make_step(make_resnet(depths), descend, draw("f32", sizes[0], 3, 224, 224), labels, on)
