"""Measure an operator on the virtual GPU beside the CPU, in one run.

    python tools/bench/virtual.py [--json] [--threads 1] [--only add,cat]

Times are the best of several repeats; whole training steps are medians of alternating runs, so that both sides see
the same machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from on_virtual import begin, show
from torch import nn


def best_us(function: Callable[[], object], number: int = 2000, repeats: int = 15) -> float:
    """Return the fastest of some runs, in microseconds a call."""
    for _ in range(50):
        function()
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(number):
            function()
        best = min(best, (time.perf_counter() - started) / number)
    return best * 1e6


def operators(device: str) -> dict[str, Callable[[], object]]:
    """Small operators, where the overhead shows."""
    a, b = torch.rand(4, device=device), torch.rand(4, device=device)
    h, mask = a.half(), a > 0.5
    m = torch.rand(8, 8, device=device)
    big = torch.rand(256, 256, device=device)
    w = nn.Parameter(torch.rand(4, device=device))
    return {
        "add": lambda: a + b,
        "add scalar": lambda: a + 1,
        "mul scalar": lambda: a * 0.5,
        "div scalar": lambda: a / 2,
        "rsub scalar": lambda: 1 - a,
        "compare scalar": lambda: a > 0,
        "half scalar": lambda: h + 0.42,
        "square": lambda: a**2,
        "where": lambda: torch.where(mask, a, 0.0),
        "add_": lambda: a.add_(0.0),
        "mul": lambda: a * b,
        "relu": lambda: torch.relu(a),
        "sum": lambda: a.sum(),
        "view": lambda: m.view(64),
        "reshape": lambda: m.reshape(4, 16),
        "transpose": lambda: m.t(),
        "slice": lambda: m[1:3],
        "select": lambda: m[1],
        "detach": lambda: m.detach(),
        "expand": lambda: a.expand(3, 4),
        "empty": lambda: torch.empty(4, device=device),
        "zeros": lambda: torch.zeros(4, device=device),
        "clone": lambda: a.clone(),
        "copy_": lambda: a.copy_(b),
        "to float64": lambda: a.to(torch.float64),
        "fill_": lambda: m.fill_(1.0),
        "item": lambda: a[0].item(),
        "cat": lambda: torch.cat([a, b]),
        "linear 8": lambda: torch.nn.functional.linear(m, m),
        "mm 256": lambda: big @ big,
        "forward+backward": lambda: (w * a).sum().backward(),
    }


def transformer(device: str) -> Callable[[], object]:
    """Return a small transformer's training step."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(128, 10)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.rand(8, 64, 128, device=device), torch.randint(10, (8, 64), device=device)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


class Block(nn.Module):
    """ResNet-18's basic block."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def resnet18_model() -> nn.Module:
    """ResNet-18 for ten classes."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(channels, outputs, stride), Block(outputs, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def resnet18(device: str) -> Callable[[], object]:
    """Return a ResNet-18 training step on small images."""
    torch.manual_seed(0)
    model = resnet18_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.rand(8, 3, 96, 96, device=device), torch.randint(10, (8,), device=device)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def steps(make: Callable[[str], Callable[[], object]], count: int) -> tuple[float, float]:
    """Median milliseconds of a step on the CPU and on the virtual GPU, alternating."""
    both = [make("cpu"), make("cuda")]
    times: list[list[float]] = [[], []]
    for i in range(count + 2):
        for side, function in enumerate(both):
            started = time.perf_counter()
            function()
            if i >= 2:
                times[side].append((time.perf_counter() - started) * 1e3)
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> None:
    """The command line."""
    options, only = begin(__doc__)
    on_cpu, on_cuda = operators("cpu"), operators("cuda")
    rows: list[dict[str, object]] = []
    for name in on_cpu:
        if only and name not in only:
            continue
        slow = name == "mm 256"
        a = best_us(on_cpu[name], 50 if slow else 2000)
        b = best_us(on_cuda[name], 50 if slow else 2000)
        rows.append({"what": name, "cpu_us": round(a, 2), "virtual_us": round(b, 2), "more_us": round(b - a, 2)})
    for name, make, count in (("transformer step", transformer, 20), ("resnet18 step", resnet18, 6)):
        if only and name not in only:
            continue
        a, b = steps(make, count)
        rows.append({"what": name, "cpu_ms": round(a, 2), "virtual_ms": round(b, 2), "ratio": round(b / a, 3)})
    show(rows, options)


if __name__ == "__main__":
    main()
