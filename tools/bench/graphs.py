"""Measure a step replayed from a CUDA graph, beside the step run eagerly.

    python tools/bench/graphs.py [--json] [--threads 1] [--only "tiny operators,gpt"] [--driver virtual]

Both are medians of alternating runs, so that they see the same machine. ``equal`` says whether parameters and losses of
both are the same bits after all steps, ``grown`` by how many bytes memory grew over the replays.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from on_virtual import Row, begin, show
from torch import nn
from virtual import resnet18_model

_WARM_UP = 3


class Program(NamedTuple):
    """A step, and what it leaves behind."""

    step: Callable[[], torch.Tensor]
    state: list[torch.Tensor]


def tiny() -> Program:
    """Two hundred operators on four elements: nothing but overhead."""
    torch.manual_seed(0)
    x = torch.rand(4, device="cuda")

    def step() -> torch.Tensor:
        y = x
        for _ in range(100):
            y = (y + 1) * 0.5
        return y

    return Program(step, [x])


def training(model: nn.Module, x: torch.Tensor, y: torch.Tensor, amp: bool = False, fused: bool = False) -> Program:
    """Return a training step, with mixed precision and scaled gradients if asked for."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=True, fused=fused)
    scaler = torch.amp.GradScaler("cuda", enabled=amp, init_scale=1024.0)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=amp, cache_enabled=False):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return Program(step, [*model.parameters(), *model.buffers()])


def mlp() -> Program:
    """Three layers with dropout."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 128), nn.ReLU())
    model = nn.Sequential(model, nn.Linear(128, 10)).cuda()
    return training(model, torch.rand(32, 64, device="cuda"), torch.randint(10, (32,), device="cuda"))


def resnet18() -> Program:
    """ResNet-18 on small images."""
    torch.manual_seed(0)
    model = resnet18_model().cuda()
    return training(model, torch.rand(4, 3, 64, 64, device="cuda"), torch.randint(10, (4,), device="cuda"))


class Gpt(nn.Module):
    """Two blocks of causal attention."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, 128), nn.Embedding(64, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.1, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(128, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(64))
        self.register_buffer("numbers", torch.arange(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.tokens(x) + self.places(self.numbers)
        return self.head(self.blocks(h, mask=self.mask, is_causal=True)).flatten(0, 1)


def gpt(amp: bool = False) -> Program:
    """Return a small GPT."""
    torch.manual_seed(0)
    model = Gpt().cuda()
    x = torch.randint(256, (4, 64), device="cuda")
    return training(model, x, x.roll(-1, 1).flatten(), amp=amp, fused=amp)


PROGRAMS: dict[str, Callable[[], Program]] = {
    "tiny operators": tiny,
    "mlp": mlp,
    "resnet18": resnet18,
    "gpt": gpt,
    "gpt amp": lambda: gpt(amp=True),
}


def captured(program: Program) -> Callable[[], torch.Tensor]:
    """Return the program's step as a graph; it is run some times before."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            program.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = program.step()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay


def states() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the states of the generators: on the cpu driver some numbers come from the CPU's."""
    return torch.cuda.get_rng_state(), torch.get_rng_state()


def set_states(kept: tuple[torch.Tensor, torch.Tensor]) -> None:
    torch.cuda.set_rng_state(kept[0])
    torch.set_rng_state(kept[1])


def draws_of_its_own(step: Callable[[], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Return the step, with random numbers that nobody else draws from."""
    torch.manual_seed(1)
    state = states()

    def alone() -> torch.Tensor:
        nonlocal state
        set_states(state)
        result = step()
        state = states()
        return result

    return alone


def compare(make: Callable[[], Program], count: int) -> Row:
    """Both ways of running a program, in turns."""
    one, other = make(), make()
    eager = draws_of_its_own(one.step)
    for _ in range(_WARM_UP):
        eager()
    torch.manual_seed(1)
    replay = captured(other)
    state = states()
    equal = True
    times: list[list[float]] = [[], []]
    before = 0
    for _ in range(count):
        started = time.perf_counter()
        expected = eager()
        between = time.perf_counter()
        set_states(state)
        again = time.perf_counter()
        got = replay()
        times[1].append(time.perf_counter() - again)
        times[0].append(between - started)
        state = states()
        equal = equal and torch.equal(expected, got)
        del expected
        before = before or torch.cuda.memory_allocated()
    grown = torch.cuda.memory_allocated() - before
    equal = equal and all(torch.equal(a, b) for a, b in zip(one.state, other.state, strict=True))
    plain, graph = (statistics.median(side) * 1e3 for side in times)
    return {
        "eager ms": f"{plain:.3f}",
        "replay ms": f"{graph:.3f}",
        "ratio": f"{graph / plain:.2f}",
        "equal": equal,
        "grown": grown,
    }


def main() -> None:
    """Print one row a program."""
    options, only = begin(__doc__ or "")
    rows: list[Row] = [
        {"what": name, **compare(make, 50)} for name, make in PROGRAMS.items() if not only or name in only
    ]
    show(rows, options)


if __name__ == "__main__":
    main()
