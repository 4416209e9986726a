"""Measure the machine's memory that the virtual GPU uses beside the CPU, in separate processes, in turns.

    python tools/bench/memory.py [--json] [--only start,tensors,block,step]

A figure is the growth of a process's largest resident size over what it was before the case, the median of three.
``start`` is the whole process, with torch imported alone and with the driver active and used.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

TENSORS, BLOCK, TURNS = 100_000, 64 << 20, 3


def start(device: str) -> object:
    """Create one small tensor, as a program does at its start."""
    import torch

    return torch.ones(1, device=device)


def tensors(device: str) -> object:
    """Many of 512 bytes each, the least that a GPU hands out."""
    import torch

    return [torch.zeros(128, device=device) for _ in range(TENSORS)]


def block(device: str) -> object:
    """Create one large tensor and write it."""
    import torch

    return torch.ones(BLOCK, device=device)


def step(device: str) -> object:
    """Three training steps of ResNet-18."""
    import torch
    from virtual import resnet18_model

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = resnet18_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.rand(8, 3, 64, 64, device=device)).sum().backward()
        optimizer.step()
    return model


CASES: dict[str, tuple[str, Callable[[str], object]]] = {
    "start": ("a process with one tensor", start),
    "tensors": (f"{TENSORS} tensors of 512 bytes", tensors),
    "block": (f"a tensor of {BLOCK >> 18} MiB", block),
    "step": ("three steps of ResNet-18", step),
}


def serve(name: str, device: str) -> None:
    """Print how many KiB the case took in this process."""
    import torch

    if device == "cuda":
        import torchdevice_cuda

        torchdevice_cuda.activate(driver="virtual", visible_devices="0")
    if name != "start":
        torch.ones(1, device=device)
    before = 0 if name == "start" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = CASES[name][1](device)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    del kept


def taken(name: str, device: str) -> int:
    """Return a separate process's report, in KiB."""
    command = [sys.executable, __file__, "--serve", name, device]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", default="", help="names, comma-separated")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(*options.serve)
        return
    only = set(filter(None, options.only.split(",")))
    rows: list[dict[str, object]] = []
    for name, (what, _) in CASES.items():
        if only and name not in only:
            continue
        turns = [(taken(name, "cpu"), taken(name, "cuda")) for _ in range(TURNS)]
        cpu, virtual = (statistics.median(side) for side in zip(*turns, strict=True))
        rows.append(
            {
                "what": what,
                "cpu_mib": round(cpu / 1024, 1),
                "virtual_mib": round(virtual / 1024, 1),
                "ratio": round(virtual / cpu, 3),
            }
        )
    from on_virtual import show  # which imports what the measured processes are not to have

    show(rows, options)


if __name__ == "__main__":
    main()
