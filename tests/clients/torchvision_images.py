"""torchvision: images through transforms and a DataLoader into a small network, as most training scripts begin."""

from __future__ import annotations

import numpy
import torch
from _client import DEVICE, expect_falling, expect_on_device, report, seed
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2

#: Both generations, to the same numbers.
TRANSFORMS = {
    "v1": transforms.Compose([transforms.ToTensor(), transforms.Normalize([0.5] * 3, [0.5] * 3)]),
    "v2": v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]),
}


class Images(Dataset):
    """Pictures of two kinds, bright and dark."""

    def __init__(self, transform: object) -> None:
        self.transform = transform
        self.pixels = numpy.random.default_rng(0).integers(0, 128, (16, 8, 8, 3)).astype(numpy.uint8)
        self.pixels[::2] += 127

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.transform(Image.fromarray(self.pixels[index]))
        # A transform that took the picture for something else leaves bytes, without a word.
        assert image.dtype is torch.float32
        assert -1 <= float(image.min()) <= float(image.max()) <= 1
        return image, index % 2


def train(kind: str, workers: int) -> list[float]:
    seed()
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 2))
    assert {parameter.device.type for parameter in model.parameters()} <= {"cpu", DEVICE}
    model = model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        for images, labels in DataLoader(Images(TRANSFORMS[kind]), 16, num_workers=workers, pin_memory=DEVICE != "cpu"):
            images, labels = images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True)
            expect_on_device(images, labels, *model.parameters())
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return expect_falling(losses)


def main() -> None:
    report(float32={f"{kind} {workers}": train(kind, workers) for kind in TRANSFORMS for workers in (0, 1)})


if __name__ == "__main__":
    main()
