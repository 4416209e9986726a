"""Measure the mps driver's cost: operators that the GPU has, active against inactive, and operators that it lacks.

    TORCHDEVICE_EMULATE_MPS=1 python tools/bench/apple.py [--rounds 5] [--elements 256] [--only sum] [--json]

Both sides run in one process on the same device, in turns; a figure is the best of all turns. Sizes are small unless
told otherwise: an overhead shows there, and every ratio is the worst that a program can meet. On a Mac leave the
variable out.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # instead of this folder, where a file is called mlx

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import torchdevice_cuda  # noqa: E402
from torchdevice_cuda import settings  # noqa: E402

Calls = dict[str, Callable[[], object]]
COUNT = 256  # elements of a vector, unless told otherwise
SIDE = 64  # of a matrix, at least


def supported(device: str, count: int = COUNT) -> Calls:
    """Operators that the GPU computes itself."""
    side = max(SIDE, math.isqrt(count))
    a, b = torch.rand(count, device=device), torch.rand(count, device=device)
    m, n = torch.rand(side, side, device=device), torch.rand(side, side, device=device)
    image, kernel = torch.rand(1, 8, side // 4, side // 4, device=device), torch.rand(8, 8, 3, 3, device=device)
    index = torch.randint(count, (count,), device=device)
    weight = torch.rand(side, device=device)
    leaf = torch.rand(count, device=device, requires_grad=True)
    linear, lstm = nn.Linear(side, side).to(device), nn.LSTM(side, side).to(device)
    sequence = torch.rand(4, 1, side, device=device)
    return {
        "x + y": lambda: a + b,
        "x * 2": lambda: a * 2,
        "x.add_(y)": lambda: a.add_(0.0),
        "relu": lambda: torch.relu(a),
        "exp": lambda: a.exp(),
        "x > y": lambda: a > b,
        "where": lambda: torch.where(a > b, a, b),
        "mm": lambda: m @ n,
        "linear": lambda: linear(m),
        "conv2d": lambda: functional.conv2d(image, kernel),
        "layer_norm": lambda: functional.layer_norm(m, (side,), weight, weight),
        "F.softmax": lambda: functional.softmax(m, dim=-1),
        "torch.softmax": lambda: torch.softmax(m, dim=-1),
        "x.sum()": lambda: a.sum(),
        "torch.sum": lambda: torch.sum(m, 1),
        "x.mean(dim)": lambda: m.mean(dim=1),
        "x.prod()": lambda: a.prod(),
        "x.norm()": lambda: a.norm(),
        "x.max()": lambda: a.max(),
        "x.argmax(1)": lambda: m.argmax(1),
        "x.cumsum(0)": lambda: a.cumsum(0),
        "torch.sort": lambda: torch.sort(a),
        "x.topk(5)": lambda: a.topk(5),
        "index": lambda: a[index],
        "slice": lambda: m[1:5],
        "view": lambda: m.view(-1),
        "transpose": lambda: m.t(),
        "cat": lambda: torch.cat([a, b]),
        "stack": lambda: torch.stack([a, b]),
        "clone": lambda: a.clone(),
        "x.copy_(y)": lambda: b.copy_(a),
        "x.float()": lambda: a.float(),
        "x.half()": lambda: a.half(),
        "x.to(dtype)": lambda: a.to(torch.float16),
        "x.to(device), there": lambda: a.to(device),
        "x.item()": lambda: weight[0].item(),
        "x.shape": lambda: a.shape,
        "cross_entropy": lambda: functional.cross_entropy(m, index[:side] % side),
        "attention": lambda: functional.scaled_dot_product_attention(m[None, None], n[None, None], n[None, None]),
        "lstm": lambda: lstm(sequence),
        "backward": lambda: (leaf * 2).sum().backward(),
    }


def factories(device: str) -> Calls:
    """Functions that make tensors, and moves."""
    a, small = torch.rand(COUNT, device=device), torch.ones(1, device=device).new_tensor([1.0])
    host = torch._C.TensorBase.cpu(a)
    return {
        "zeros": lambda: torch.zeros(COUNT, device=device),
        "empty": lambda: torch.empty(COUNT, device=device),
        "rand": lambda: torch.rand(COUNT, device=device),
        "arange": lambda: torch.arange(COUNT, device=device),
        "full": lambda: torch.full((COUNT,), 1.0, device=device),
        "tensor([..])": lambda: torch.tensor([1.0, 2.0], device=device),
        "zeros_like": lambda: torch.zeros_like(a),
        "new_zeros": lambda: a.new_zeros(COUNT),
        "x.to(device)": lambda: host.to(device),
        "x.cpu()": lambda: small.cpu(),
    }


def unasked(device: str) -> Calls:
    """Run it without naming a device, where the policy redirects that to the GPU; inactive, the device is named."""
    where = {} if device == "cuda" else {"device": device}
    layer = nn.Linear(64, 64, **where)
    x = torch.rand(64, 64, **where)
    return {
        "zeros(n)": lambda: torch.zeros(COUNT, **where),
        "rand(n)": lambda: torch.rand(COUNT, **where),
        "tensor([..])": lambda: torch.tensor([1.0, 2.0], **where),
        "linear": lambda: layer(x),
    }


def lacking(device: str) -> dict[str, tuple[Callable[..., object], tuple]]:
    """Operators that the GPU has not, with their arguments."""
    found = {}
    for count in (100, 10_000, 100_000):
        x = torch.rand(count, device=device)
        found[f"special.ndtri {count}"] = (torch.special.ndtri, (x,))
        found[f"frexp {count}"] = (torch.frexp, (x,))
        found[f"heaviside {count}"] = (torch.heaviside, (x, x))
    side = torch.rand(32, 32, device=device)
    found["linalg.eigvals 32x32"] = (torch.linalg.eigvals, (side,))
    return found


def best_us(function: Callable[[], object], budget: float) -> float:
    """Return the fastest of some batches within a time budget, in microseconds a call."""
    function()
    started = time.perf_counter()
    function()
    number = max(1, int(2e-4 / max(1e-7, time.perf_counter() - started)))
    best, until = math.inf, time.perf_counter() + budget
    while time.perf_counter() < until:
        started = time.perf_counter()
        for _ in range(number):
            function()
        best = min(best, (time.perf_counter() - started) / number)
    return best * 1e6


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / max(1, len(ratios)))


def in_turns(
    make: Callable[[str], Calls], options: argparse.Namespace, control: bool = False, policy: str = "faithful"
) -> dict[str, tuple[float, float]]:
    """Best times of every call, inactive and active; with ``control`` both are inactive."""
    found: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for side in (0, 1):
            active = side == 1 and not control
            if active:
                torchdevice_cuda.activate(driver="mps", policy=policy, identity=options.identity)
            try:
                for name, call in make("cuda" if active else "mps").items():
                    if options.only in name and name != options.skip:
                        row = found.setdefault(name, [math.inf, math.inf])
                        row[side] = min(row[side], best_us(call, options.budget))
            finally:
                if active:
                    torchdevice_cuda.deactivate()
    return {name: (row[0], row[1]) for name, row in found.items()}


def fallbacks(options: argparse.Namespace) -> dict[str, tuple[float, float]]:
    """Best times of the parts of a fallback (copies there and back, the operator on the CPU), and of the whole."""
    found = {}
    torchdevice_cuda.activate(driver="mps", policy="faithful", identity=options.identity)
    to, device, cpu = torch._C.TensorBase.to, torch.device("mps", 0), torch.device("cpu")
    try:
        for name, (function, args) in lacking("cuda").items():
            if options.only not in name:
                continue
            brought = [to(value, cpu) for value in args]
            results = function(*brought)
            results = results if isinstance(results, tuple) else (results,)
            parts, whole = math.inf, math.inf
            for _ in range(options.rounds):
                there = sum(best_us(lambda v=v: to(v, cpu), options.budget) for v in args)
                back = sum(best_us(lambda v=v: to(v, device), options.budget) for v in results)
                op = best_us(lambda f=function, a=brought: f(*a), options.budget)
                parts = min(parts, there + op + back)
                whole = min(whole, best_us(lambda f=function, a=args: f(*a), options.budget))
            found[name] = (parts, whole)
    finally:
        torchdevice_cuda.deactivate()
    return found


def table(title: str, rows: dict[str, tuple[float, float]]) -> str:
    """Times, differences and ratios, and the mean ratio."""
    lines = [title]
    for name, (before, after) in rows.items():
        lines.append(f"  {name:24} {before:9.2f} {after:9.2f} us  {after - before:+7.2f} us  {after / before:6.3f}")
    ratios = [after / before for before, after in rows.values()]
    lines.append(f"  geometric mean {mean(ratios):.3f}, worst {max(ratios, default=math.nan):.3f}")
    return "\n".join(lines)


def rows(title: str, found: dict[str, tuple[float, float]]) -> list[dict[str, object]]:
    """Return the rows for a program: the mean ratio, and each that is a tenth worse."""
    ratios = {name: after / before for name, (before, after) in found.items()}
    middle = mean(list(ratios.values()))
    worse = {name: ratio for name, ratio in ratios.items() if ratio > middle * 1.1}
    told = {f"{title}, mean of {len(ratios)}": middle, **{f"{title}: {name}": value for name, value in worse.items()}}
    return [{"what": name, "ratio": round(value, 3)} for name, value in told.items()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=0.02, help="seconds per operator and turn")
    parser.add_argument("--elements", type=int, default=COUNT, help="of a vector that an operator is called with")
    parser.add_argument("--only", default="", help="only operators whose name contains this")
    parser.add_argument("--skip", default="", help="leave this one out")
    parser.add_argument("--identity", default="cuda", choices=("cuda", "native"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if settings.load().emulate_mps:
        # Before the first turn, so that the inactive side has the device too.
        torchdevice_cuda.activate(driver="mps", policy="faithful")
        torchdevice_cuda.deactivate()
    operators = functools.partial(supported, count=options.elements)
    results = {
        "inactive against itself": in_turns(operators, options, control=True),
        "operators the GPU has": in_turns(operators, options),
        "factories and moves": in_turns(factories, options),
        "no device named, policy accelerate": in_turns(unasked, options, policy="accelerate"),
        "fallbacks against copies + CPU": fallbacks(options),
    }
    if options.json:
        print(json.dumps([row for title, each in results.items() for row in rows(title, each)], indent=1))
    else:
        print("\n".join(table(title, rows) for title, rows in results.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
