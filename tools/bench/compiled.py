"""Training steps that ``torch.compile`` made, with Triton code and with C++, on the virtual GPU.

python tools/bench/compiled.py [--json] [--threads 1] [--only resnet,gpt,lstm]

Each backend compiles in a process with empty caches. Times are processor time, with that of the compilers; kernels are
compiled one after another. Exits with an error if a loss differs from eager's by more than 1e-4 of it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("eager", "cpp", "triton")
#: Losses compared, and steps timed after them.
COMPARED, TIMED = 5, 10
TOLERANCE = 1e-4


# ------------------------------------------------------------------- models
class Block(nn.Module):
    """A residual block of ResNet-18."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(before, after, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(after, after, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _ in range(2))
        self.shorter = (
            nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
            if stride > 1 or before != after
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(y)) + self.shorter(x)).relu()


def make_resnet() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return ResNet-18 with its 11 million parameters, for small images."""
    sizes, layers = (64, 64, 128, 256, 512), []
    for index in range(4):
        layers.append(Block(sizes[index], sizes[index + 1], 1 if index == 0 else 2))
        layers.append(Block(sizes[index + 1], sizes[index + 1], 1))
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    model = nn.Sequential(*stem, *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    return model, torch.randn(8, 3, 64, 64), torch.randint(10, (8,))


class Layer(nn.Module):
    """A transformer's layer with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = scaled_dot_product_attention(*parts.unbind(), is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norms[1](x))))


class Gpt(nn.Module):
    """A GPT of four layers."""

    def __init__(self, words: int = 256, width: int = 128, length: int = 64) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, 4) for _ in range(4)), nn.LayerNorm(width))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return self.head(self.layers(self.words(x) + self.places(places))).flatten(0, 1)


def make_gpt() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    return Gpt(), torch.randint(256, (8, 64)), torch.randint(256, (8 * 64,))


class Lstm(nn.Module):
    """An LSTM of cells, so that compilation sees its steps: cuDNN's is one call."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(64, width), nn.LSTMCell(width, width), nn.Linear(width, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state, found = None, []
        for word in self.words(x).unbind(1):
            state = self.cell(word, state)
            found.append(state[0])
        return self.head(torch.stack(found, 1)).flatten(0, 1)


def make_lstm() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    return Lstm(), torch.randint(64, (16, 12)), torch.randint(64, (16 * 12,))


MODELS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]]] = {
    "resnet": make_resnet,
    "gpt": make_gpt,
    "lstm": make_lstm,
}
TITLES = {"resnet": "ResNet-18", "gpt": "GPT", "lstm": "LSTM"}


# ------------------------------------------------------------ in the child
def count_processor_time() -> float:
    """Return seconds, with those of the compilers that were run."""
    found = os.times()
    return found.user + found.system + found.children_user + found.children_system


def train(name: str, backend: str) -> dict[str, Any]:
    """Train a model for a few steps; return its losses, seconds of the first step and of a later one."""
    torch.manual_seed(0)
    model, x, y = (part.cuda() for part in MODELS[name]())
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def find_loss() -> torch.Tensor:
        return cross_entropy(model(x), y)

    forward = find_loss if backend == "eager" else torch.compile(find_loss)

    def step() -> float:
        optimizer.zero_grad()
        loss = forward()
        loss.backward()
        optimizer.step()
        return loss.item()

    start, clock = count_processor_time(), time.monotonic()
    losses = [step()]
    first, waited = count_processor_time() - start, time.monotonic() - clock
    losses += [step() for _ in range(COMPARED - 1)]
    spent = []
    for _ in range(TIMED):
        start = time.process_time()
        step()
        spent.append(time.process_time() - start)
    return {"losses": losses, "first": first, "waited": waited, "step": min(spent)}


# ------------------------------------------------------------ in the parent
def run(name: str, backend: str, threads: int) -> dict[str, Any]:
    """Train in a process with empty caches, but for the native device's."""
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder, "torchdevice")
        shutil.copytree(find_native().parent, cache / find_native().parent.name)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "TORCHDEVICE_CACHE_DIR": str(cache),
            "TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor")),
            "TRITON_CACHE_DIR": str(Path(folder, "triton")),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "OMP_NUM_THREADS": str(threads),
        }
        compiler = [] if backend == "eager" else ["--compile", backend]
        launch = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--gpu", "h200", *compiler]
        done = subprocess.run(
            [*launch, __file__, "--child", name, backend], env=environment, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"{name} with {backend} failed:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def find_native() -> Path:
    """Return a library of the native device, built if it is not yet."""
    command = [sys.executable, "-m", "torchdevice_cuda", "--driver", "virtual", "--build"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Path(done.stdout.splitlines()[-1])


def compare(name: str, threads: int) -> Iterator[dict[str, object]]:
    """Yield what compiling and a step cost with each backend; ratios are Triton's to C++'s."""
    eager, cpp, triton = (run(name, backend, threads) for backend in BACKENDS)
    for backend, found in (("cpp", cpp), ("triton", triton)):
        pairs = zip(found["losses"], eager["losses"], strict=True)
        if (worst := max(abs(a - b) / abs(b) for a, b in pairs)) > TOLERANCE:
            raise SystemExit(f"{name}: the loss with {backend} differs from eager's by {worst:.1e}")
    title, compiling = TITLES[name], (cpp["first"], triton["first"])
    yield {
        "what": f"compiling {title}", "cpp_s": round(compiling[0], 1), "triton_s": round(compiling[1], 1),
        "cpp_waited_s": round(cpp["waited"], 1), "triton_waited_s": round(triton["waited"], 1),
        "ratio": round(compiling[1] / compiling[0], 2),
    }  # fmt: skip
    yield {
        "what": f"a step of {title}", **{f"{backend}_ms": round(found["step"] * 1e3, 1)
                                         for backend, found in zip(BACKENDS, (eager, cpp, triton), strict=True)},
        "ratio": round(triton["step"] / cpp["step"], 2),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="models, comma-separated")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(train(*options.child)))
        return
    only = options.only.split(",") if options.only else list(MODELS)
    for row in (row for name in only for row in compare(name, options.threads)):
        text = "  ".join(f"{k} {v}" if k != "what" else f"{v:22}" for k, v in row.items())
        print(json.dumps(row) if options.json else text, flush=True)


if __name__ == "__main__":
    main()
