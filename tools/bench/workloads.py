"""Training steps of whole programs on the virtual GPU beside the same on the CPU, in turns.

    python tools/bench/workloads.py [--json] [--threads 1] [--only lstm,unet,loader]

ResNet-18 and a transformer are in ``virtual.py``, DDP is in ``collectives.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from on_virtual import Row, begin, show
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from virtual import steps

Step = Callable[[], object]


def training(model: nn.Module, loss: Callable[[nn.Module], torch.Tensor]) -> Step:
    """Return a step that ends with the number that programs print."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> float:
        optimizer.zero_grad()
        found = loss(model)
        found.backward()
        optimizer.step()
        return found.item()

    return step


class Tagger(nn.Module):
    """Words in, tags out."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(512, 64)
        self.cells = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, 16)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.cells(self.words(text))[0])


def lstm(device: str) -> Step:
    """Return a tagger of two layers."""
    torch.manual_seed(0)
    text, tags = torch.randint(512, (16, 32), device=device), torch.randint(16, (16, 32), device=device)
    return training(
        Tagger().to(device), lambda model: nn.functional.cross_entropy(model(text).flatten(0, 1), tags.flatten())
    )


class UNet(nn.Module):
    """Down, up, and what was there at each size, told how much noise there is."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.noise = nn.Sequential(nn.Linear(1, width * 2), nn.SiLU(), nn.Linear(width * 2, width * 2))
        self.first = self._block(3, width)
        self.down = self._block(width, width * 2)
        self.up = self._block(width * 3, width)
        self.last = nn.Conv2d(width, 3, 1)

    @staticmethod
    def _block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.SiLU(), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        kept = self.first(x)
        low = self.down(nn.functional.avg_pool2d(kept, 2)) + self.noise(level)[:, :, None, None]
        return self.last(self.up(torch.cat([nn.functional.interpolate(low, scale_factor=2), kept], 1)))


def unet(device: str) -> Step:
    """Return a step of a diffusion model: noise is drawn, mixed in, and to be found."""
    torch.manual_seed(0)
    images = torch.rand(4, 3, 32, 32, device=device)

    def loss(model: nn.Module) -> torch.Tensor:
        noise, level = torch.randn_like(images), torch.rand(4, 1, device=device)
        mixed = images * (1 - level)[:, :, None, None] + noise * level[:, :, None, None]
        return nn.functional.mse_loss(model(mixed, level), noise)

    return training(UNet().to(device), loss)


def loader(device: str) -> Step:
    """Return an epoch that waits for its data: batches of a loader, copied from pinned memory where there is a GPU."""
    torch.manual_seed(0)
    data = TensorDataset(torch.rand(256, 64), torch.randint(10, (256,)))
    batches = DataLoader(data, batch_size=16, pin_memory=device == "cuda")
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def epoch() -> None:
        for x, y in batches:
            optimizer.zero_grad()
            found = nn.functional.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
            found.backward()
            optimizer.step()

    return epoch


def main() -> None:
    """The command line."""
    options, only = begin(__doc__ or "")
    rows: list[Row] = []
    for name, make in (("lstm", lstm), ("unet", unet), ("loader", loader)):
        if not only or name in only:
            cpu, virtual = steps(make, 20)
            rows.append(
                {
                    "what": name,
                    "cpu_ms": round(cpu, 2),
                    "virtual_ms": round(virtual, 2),
                    "ratio": round(virtual / cpu, 3),
                }
            )
    show(rows, options)


if __name__ == "__main__":
    main()
