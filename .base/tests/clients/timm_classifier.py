"""timm: a small ResNet in channels_last and a tiny vision transformer, with autocast and a GradScaler."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from timm import create_model
from timm.optim import create_optimizer_v2
from timm.utils import ModelEmaV3, NativeScaler
from torch.utils.data import DataLoader, TensorDataset

# Narrower than they come: half precision has no fast kernels on most CPUs, where some drivers compute.
MODELS = {
    "resnet10t": {"stem_width": 8, "channels": (16, 16, 32, 32)},
    "vit_tiny_patch16_224": {"img_size": 32, "embed_dim": 48, "depth": 2},
}


def loader() -> DataLoader:
    generator = torch.Generator().manual_seed(5)
    images = torch.randn(8, 3, 32, 32, generator=generator)
    labels = torch.randint(10, (8,), generator=generator)
    return DataLoader(TensorDataset(images, labels), batch_size=8, num_workers=1, pin_memory=True)


def train(name: str, half: bool) -> list[float]:
    seed()
    model = create_model(name, pretrained=False, num_classes=10, **MODELS[name])
    model = model.cuda() if ON_CUDA else model
    model = model.to(memory_format=torch.channels_last)
    average = ModelEmaV3(model, decay=0.5)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=5e-3)
    scaler = NativeScaler(device=DEVICE) if half else None
    losses = []
    for _ in range(5):
        for images, labels in loader():
            assert images.is_pinned() or not ON_CUDA
            images = images.to(DEVICE, non_blocking=True, memory_format=torch.channels_last)
            labels = labels.to(DEVICE, non_blocking=True)
            expect_on_device(images, labels, *model.parameters())
            assert images.is_contiguous(memory_format=torch.channels_last)
            with torch.autocast(DEVICE, dtype=torch.float16, enabled=half):
                loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler(loss, optimizer, clip_grad=5.0, parameters=model.parameters())
            average.update(model)
            if ON_CUDA:
                torch.cuda.synchronize()
            losses.append(loss.item())
    expect_on_device(*average.module.parameters())
    return expect_falling(losses)


def main() -> None:
    if ON_CUDA:
        torch.backends.cudnn.benchmark = True
    results = {"float32": {name: train(name, half=False) for name in MODELS}}
    if ON_CUDA:
        results["float16"] = {name: train(name, half=True) for name in MODELS}
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
