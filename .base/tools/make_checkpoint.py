"""Write a small checkpoint on a real CUDA GPU, as a training program does.

    python tools/make_checkpoint.py tests/data/checkpoint-cuda.pt

It holds the state of a model after three steps in mixed precision (parameters, buffers, optimizer, scaler, both random
states), the data it learns, and what the GPU made of them, for ``tests/test_checkpoint.py`` to go on from.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn

LARGEST = 100 * 1024  # bytes; the file is kept with the tests
STEPS = 3


def build(device: str) -> tuple[nn.Module, torch.optim.Optimizer, torch.amp.GradScaler]:
    """The model and what trains it, as they are before any step."""
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
    """The loss without dropout and in float32: the same on every device."""
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


def main() -> None:
    """Write the checkpoint to the path given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", type=Path)
    path: Path = parser.parse_args().path
    if not torch.cuda.is_available() or torch.version.cuda is None:
        parser.error("this takes a real CUDA GPU")
    state = checkpoint("cuda")
    assert all(tensor.is_cuda for tensor in state["model"].values())
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)
    size = path.stat().st_size
    assert size < LARGEST, f"{size} bytes"
    print(f"{path}: {size} bytes, torch {state['torch']} on {state['device_name']}, losses {state['losses']}")


if __name__ == "__main__":
    main()
