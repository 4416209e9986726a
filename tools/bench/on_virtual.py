"""Code that the benches of the virtual GPU share: their options and their tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import torchdevice_cuda

Row = dict[str, object]


def begin(description: str) -> tuple[argparse.Namespace, set[str]]:
    """Read the options and activate the driver; also the names to which ``--only`` restricts, none for all."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="names, comma-separated")
    parser.add_argument("--driver", default="virtual", help="another driver than that of the virtual GPU")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torchdevice_cuda.activate(driver=options.driver, visible_devices="0")
    return options, set(filter(None, options.only.split(",")))


def find_best_us(functions: list[Callable[[], object]], size: int, clock: Callable[[], float]) -> list[float]:
    """Return the fastest of some runs of each, in microseconds a call; `size` is the number of elements."""
    number, repeats = max(1, 1_000_000 // size), 9 if size < 1_000_000 else 5
    best = [float("inf")] * len(functions)
    for _ in range(repeats):
        for side, function in enumerate(functions):
            function()
            started = clock()
            for _ in range(number):
                function()
            best[side] = min(best[side], (clock() - started) / number * 1e6)
    return best


def show(rows: list[Row], options: argparse.Namespace) -> None:
    """Print rows, of which each says ``what`` it is about."""
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print("  ".join(f"{k} {v}" if k != "what" else f"{v:20}" for k, v in row.items()))
