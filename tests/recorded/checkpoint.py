"""A small checkpoint, as a training program writes it: the state of a model after three steps in mixed precision.

Parameters, buffers, optimizer, scaler, both random states, the data it learns, and what the GPU made of them, for
``tests/test_checkpoint.py`` to go on from. The record is torch's own file, with the header as a file of the archive.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn

RECORD = "checkpoint-cuda.pt"
LARGEST = 100 * 1024  # bytes; the file is kept with the tests
STEPS = 3


def build(device: str) -> tuple[nn.Module, torch.optim.Optimizer, torch.amp.GradScaler]:
    """Return the model and what trains it, as they are before any step."""
    model = nn.Sequential(
        nn.Linear(8, 32), nn.BatchNorm1d(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)
    ).to(device)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2), torch.amp.GradScaler("cuda", init_scale=1024.0)


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    data: tuple[torch.Tensor, torch.Tensor],
    steps: int,
) -> list[float]:
    """Train in mixed precision; the losses."""
    inputs, labels = data
    model.train()
    losses = []
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@torch.no_grad()
def evaluate(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> float:
    """Return the loss without dropout and in float32: the same on every device."""
    inputs, labels = data
    model.eval()
    return nn.functional.cross_entropy(model(inputs), labels).item()


def checkpoint(device: str) -> dict[str, Any]:
    """Train, and gather what a checkpoint holds."""
    torch.manual_seed(0)
    model, optimizer, scaler = build(device)
    inputs = torch.randn(32, 8, device=device)
    data = inputs, inputs[:, :4].argmax(1)
    losses = train(model, optimizer, scaler, data, STEPS)
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scaler": scaler.state_dict(),
        "cuda_rng": torch.cuda.get_rng_state(),
        "cpu_rng": torch.get_rng_state(),
        "data": data,
        "losses": losses,
        "loss": evaluate(model, data),
        "torch": str(torch.__version__),
        "device_name": torch.cuda.get_device_name(),
    }
    # What the CPU's generator gives next is the same wherever its state is restored.
    state["next_cpu_random"] = torch.rand(4).tolist()
    return state


def record_set(options: argparse.Namespace) -> int:
    """Write the checkpoint instead of JSON."""
    from record import store

    state = checkpoint("cuda")
    about = store.make_header("python tools/record record checkpoint")
    assert store.is_real(about), about
    path: Path = options.to or store.DATA / RECORD
    torch.save(state, path)
    assert path.stat().st_size < LARGEST, f"{path.stat().st_size} bytes"
    store.add_header(path, about)
    print(f"{path}: losses {state['losses']}")
    return 0
