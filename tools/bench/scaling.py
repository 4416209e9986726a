"""Measure an addition on the virtual GPU beside many devices, streams, tensors or threads.

    python tools/bench/scaling.py [--json] [--only devices,streams,tensors,threads]

Each row is the same addition before and after, in one process; the CPU's beside it where it has the like.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch
from on_virtual import show

import torchdevice_cuda

DEVICES, STREAMS, TENSORS, THREADS = 8, 64, 200_000, 4


def addition_us(device: str, number: int = 2000, repeats: int = 15) -> float:
    """Return the fastest of some runs, in microseconds a call."""
    a, b = torch.rand(4, device=device), torch.rand(4, device=device)
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(number):
            a + b
        best = min(best, (time.perf_counter() - started) / number)
    return best * 1e6


def devices() -> list[object]:
    """Every device is used."""
    return [torch.rand(1000, device=f"cuda:{index}") * 2 for index in range(DEVICES)]


def streams() -> list[object]:
    """Many streams have had work, and are kept."""
    made: list[object] = []
    for _ in range(STREAMS):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            made += [stream, torch.rand(1000, device="cuda") * 2]
    torch.cuda.synchronize()
    return made


def tensors(device: str = "cuda") -> list[object]:
    """Many small tensors live."""
    return [torch.empty(16, device=device) for _ in range(TENSORS)]


def crowd_us(device: str) -> float:
    """Microseconds for one addition where several threads add at the same time, with one interpreter."""

    def work() -> None:
        a = torch.rand(4, device=device)
        for _ in range(5000):
            a + a

    best = float("inf")
    for _ in range(5):
        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = min(best, (time.perf_counter() - started) / (THREADS * 5000))
    return best * 1e6


def row(name: str, before: float, after: float) -> dict[str, object]:
    return {"what": name, "before_us": round(before, 2), "after_us": round(after, 2), "ratio": round(after / before, 2)}


def grown(name: str, add: Callable[[], list[object]]) -> dict[str, object]:
    """Return an addition before there is much else, and then."""
    before = addition_us("cuda")
    kept = add()
    after = addition_us("cuda")
    del kept
    torch.cuda.empty_cache()
    return row(name, before, after)


def crowded() -> dict[str, object]:
    """Measure how much an addition slows down beside other threads that add, and the CPU's."""
    cpu, virtual = (crowd_us(device) / addition_us(device) for device in ("cpu", "cuda"))
    return {"what": f"{THREADS} threads, beside the CPU's loss", "cpu": cpu, "virtual": virtual, "ratio": virtual / cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="names, comma-separated")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    torch.set_num_threads(1)
    torchdevice_cuda.activate(driver="virtual", devices=DEVICES)
    cases: dict[str, Callable[[], dict[str, object]]] = {
        "devices": lambda: grown(f"{DEVICES} devices in use", devices),
        "streams": lambda: grown(f"{STREAMS} streams", streams),
        "tensors": lambda: grown(f"{TENSORS} tensors", tensors),
        "threads": crowded,
    }
    rows = [case() for name, case in cases.items() if not only or name in only]
    show(rows, options)


if __name__ == "__main__":
    main()
