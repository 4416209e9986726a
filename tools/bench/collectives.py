"""Measure all_reduce and a DDP step on the virtual GPU, in turns with Gloo's on CPU tensors.

    python tools/bench/collectives.py [--json] [--ranks 2] [--calls 10000]

Times are the best of several rounds. Memory is the device's and the process's, before and after many calls.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import psutil
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from virtual import resnet18_model

import torchdevice_cuda

torchdevice_cuda.activate(driver="virtual", devices=8)

SIZES = tuple(4**power * 1024 for power in range(9))
ROUNDS = 12


def reduce(group: Any, device: str, size: int, calls: int) -> float:
    """Seconds for one."""
    tensor = torch.ones(size // 4, device=device)
    started = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(tensor, group=group)
    return (time.perf_counter() - started) / calls


def compare(gloo: Any) -> list[dict[str, Any]]:
    rows = []
    for size in SIZES:
        calls = max(2, min(200, 4_000_000 // (size + 20_000)))
        found: dict[str, list[float]] = {"cpu": [], "cuda": []}
        for _ in range(ROUNDS):
            for device, group in (("cpu", gloo), ("cuda", None)):
                found[device].append(reduce(group, device, size, calls))
        cpu, cuda = (min(times) * 1e6 for times in found.values())
        rows.append({"what": f"all_reduce {size >> 10} KiB", "gloo us": cpu, "nccl us": cuda, "ratio": cuda / cpu})
    return rows


def trained(group: Any, device: str) -> Callable[[], float]:
    """A training step of ResNet-18 on small images; the seconds that it took."""
    torch.manual_seed(0)
    model = DistributedDataParallel(resnet18_model().to(device), process_group=group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = torch.rand(8, 3, 96, 96).to(device), torch.randint(10, (8,)).to(device)

    def step() -> float:
        started = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        return time.perf_counter() - started

    return step


def compare_steps(gloo: Any) -> dict[str, Any]:
    """In turns, the best of several."""
    steps = [trained(gloo, "cpu"), trained(None, "cuda")]
    times = [[step() for step in steps] for _ in range(ROUNDS)]
    cpu, cuda = (min(found) * 1e6 for found in zip(*times, strict=True))
    return {"what": "a step of ResNet-18", "gloo us": cpu, "nccl us": cuda, "ratio": cuda / cpu}


def memory(calls: int) -> dict[str, Any]:
    """Measure the memory that many calls leave behind."""
    tensor, process = torch.ones(1000, device="cuda"), psutil.Process()
    found = []
    for count in (calls // 10, calls):
        for _ in range(count):
            dist.all_reduce(tensor)
            dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        found.append((torch.cuda.memory_allocated(), process.memory_info().rss))
    (before, resident), (after, later) = found
    return {
        "what": f"{2 * calls} calls",
        "device bytes more": after - before,
        "process KiB more": (later - resident) >> 10,
    }


def work(rank: int, options: argparse.Namespace, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=options.ranks)
    gloo = dist.new_group(backend="gloo")
    rows = compare(gloo)
    rows.append(compare_steps(gloo))
    rows.append(memory(options.calls))
    if rank == 0:
        for row in rows:
            shown = {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}
            print(
                json.dumps(shown)
                if options.json
                else "  ".join(f"{v:20}" if k == "what" else f"{k} {v}" for k, v in shown.items())
            )
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--calls", type=int, default=10_000)
    options = parser.parse_args()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    mp.spawn(work, args=(options, port), nprocs=options.ranks)


if __name__ == "__main__":
    main()
