"""Measure half precision on the virtual GPU beside float32 in one run.

    python tools/bench/half.py [--json] [--threads 1] [--only mm,resnet18]

Operators are the best of several alternating repeats, whole training steps the medians, so that all types see the same
machine. Steps train under ``autocast``, as programs do. ``ONEDNN_MAX_CPU_ISA=AVX2`` (or ``DEFAULT``) in the environment
makes a processor of today behave as one without instructions for these types.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import torch
from on_virtual import begin, show
from torch import nn
from torch.nn import functional
from virtual import resnet18_model

HALVES = (torch.float16, torch.bfloat16)
TYPES = (torch.float32, *HALVES)


def both_ways(function: Callable[..., torch.Tensor], *shapes: Sequence[int]) -> Callable[[torch.dtype], list[Callable]]:
    """Return the function on tensors of these shapes, and its backward pass."""

    def make(dtype: torch.dtype) -> list[Callable[[], object]]:
        torch.manual_seed(0)
        given = [torch.randn(shape, device="cuda").to(dtype).requires_grad_() for shape in shapes]
        result = function(*given)
        seed = torch.randn_like(result)

        def forward() -> object:
            with torch.no_grad():
                return function(*given)

        def backward() -> object:
            return torch.autograd.grad(result, given, seed, retain_graph=True)

        return [forward, backward]

    return make


OPERATORS = {
    "mm": both_ways(torch.mm, (128, 256), (256, 256)),
    "bmm": both_ways(torch.bmm, (8, 128, 128), (8, 128, 128)),
    "linear": both_ways(functional.linear, (128, 256), (512, 256), (512,)),
    "conv2d": both_ways(lambda x, w: functional.conv2d(x, w, padding=1), (8, 32, 32, 32), (64, 32, 3, 3)),
    "sdpa": both_ways(functional.scaled_dot_product_attention, (2, 8, 128, 64), (2, 8, 128, 64), (2, 8, 128, 64)),
    "layer_norm": both_ways(lambda x, w: functional.layer_norm(x, (512,), w), (256, 512), (512,)),
    "a number": both_ways(lambda x: 1.1 - (x + 0.42), (256, 1024)),
    "softmax": both_ways(lambda x: functional.softmax(x, -1), (256, 512)),
}


class GPT(nn.Module):
    """A small decoder: four layers of 256."""

    def __init__(self, width: int = 256, heads: int = 4, layers: int = 4, words: int = 512, length: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        length = text.shape[1]
        x = self.words(text) + self.places(torch.arange(length, device=text.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=text.device)
        for block in self.blocks:
            x = block(x, mask, is_causal=True)
        return self.head(x)


def gpt(dtype: torch.dtype) -> Callable[[], object]:
    """Return a step of it: next words."""
    torch.manual_seed(0)
    text = torch.randint(512, (4, 128), device="cuda")
    return training(GPT().cuda(), text, text.roll(-1, 1), dtype)


def resnet18(dtype: torch.dtype) -> Callable[[], object]:
    """Return a step of ResNet-18."""
    torch.manual_seed(0)
    return training(
        resnet18_model().cuda(), torch.rand(8, 3, 96, 96, device="cuda"), torch.randint(10, (8,), device="cuda"), dtype
    )


def training(model: nn.Module, x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> Callable[[], object]:
    """Return a training step as programs write it; in float32 without autocast."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            out = model(x)
            loss = functional.cross_entropy(out.flatten(0, -2), y.flatten())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.item()

    return step


STEPS = {"resnet18": resnet18, "gpt": gpt}


def timed(
    functions: list[Callable[[], object]], repeats: int, number: int, choose: Callable[[list[float]], float]
) -> list[float]:
    """Milliseconds a call of each, in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for i in range(repeats + 1):
        for function, spent in zip(functions, times, strict=True):
            started = time.perf_counter()
            for _ in range(number if i else 1):
                function()
            if i:
                spent.append((time.perf_counter() - started) * 1e3 / number)
    return [choose(spent) for spent in times]


def row(name: str, times: list[float]) -> dict[str, object]:
    """Return one row of the table."""
    shown: dict[str, object] = {"what": name}
    for dtype, spent in zip(TYPES, times, strict=True):
        shown[str(dtype).removeprefix("torch.") + "_ms"] = round(spent, 3)
    for dtype, spent in zip(HALVES, times[1:], strict=True):
        shown[str(dtype).removeprefix("torch.") + "_ratio"] = round(spent / times[0], 2)
    return shown


def main() -> None:
    """The command line."""
    options, only = begin(__doc__)
    rows = []
    for name, make in OPERATORS.items():
        if only and name not in only:
            continue
        made = [make(dtype) for dtype in TYPES]
        for i, way in enumerate(("forward", "backward")):
            rows.append(row(f"{name} {way}", timed([functions[i] for functions in made], 12, 5, min)))
    for name, step in STEPS.items():
        if not only or name in only:
            rows.append(row(f"{name} step", timed([step(dtype) for dtype in TYPES], 5, 1, statistics.median)))
    show(rows, options)


if __name__ == "__main__":
    main()
