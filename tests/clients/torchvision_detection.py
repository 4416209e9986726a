"""torchvision: its own operators, transforms of tensors on the device, and a detector in training and evaluation."""

from __future__ import annotations

from typing import Any

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from torchvision import __version__, extension, ops
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn
from torchvision.transforms import v2


def boxes(count: int, size: float) -> torch.Tensor:
    corners = torch.rand(count, 2) * size / 2
    return torch.cat([corners, corners + 1 + torch.rand(count, 2) * size / 2], 1).to(DEVICE)


def operators() -> dict[str, Any]:
    """Each operator, and the gradient of those that have one."""
    seed()
    where, scores = boxes(40, 32), torch.rand(40).to(DEVICE)
    regions = torch.cat([torch.zeros(40, 1, device=DEVICE), where], 1)
    kinds = torch.arange(40, device=DEVICE) % 3
    results: dict[str, Any] = {
        "nms": ops.nms(where, scores, 0.3).tolist(),
        "batched_nms": ops.batched_nms(where, scores, kinds, 0.3).tolist(),
        "box_iou": ops.box_iou(where, where).sum().item(),
    }
    pooled = {
        "roi_align": (lambda x: ops.roi_align(x, regions, 3), 4),
        "roi_pool": (lambda x: ops.roi_pool(x, regions, 3), 4),
        "ps_roi_align": (lambda x: ops.ps_roi_align(x, regions, 2), 4),
        "ps_roi_pool": (lambda x: ops.ps_roi_pool(x, regions, 2), 4),
        "deform_conv2d": (ops.DeformConv2d(4, 3, 3).to(DEVICE), 4),
    }
    for name, (operator, channels) in pooled.items():
        x = torch.rand(1, channels, 32, 32).to(DEVICE).requires_grad_()
        more = (torch.rand(1, 18, 30, 30).to(DEVICE),) if name == "deform_conv2d" else ()
        made = operator(x, *more)
        made.square().sum().backward()
        expect_on_device(made, x.grad)
        results[name] = [made.sum().item(), x.grad.square().sum().item()]
    if ON_CUDA:
        with torch.autocast("cuda"):
            half = ops.roi_align(torch.rand(1, 4, 32, 32, device="cuda").half(), regions, 3)
        assert half.dtype == torch.float16
    return results


def transformed() -> float:
    """Transform float images: torchvision resizes uint8 images differently on the CPU and on CUDA."""
    steps = [v2.Resize(24, antialias=True), v2.CenterCrop(20), v2.GaussianBlur(3, 1.0), v2.RandomHorizontalFlip(1.0)]
    images = v2.Compose([v2.ToDtype(torch.float32, scale=True), *steps, v2.Normalize((0.5,) * 3, (0.5,) * 3)])(
        (torch.arange(2 * 3 * 32 * 32).view(2, 3, 32, 32) % 251).to(torch.uint8).to(DEVICE)
    )
    expect_on_device(images)
    return images.sum().item()


def detected() -> list[float]:
    """With as many samples as there are candidates: which are drawn depends on the device."""
    seed()
    model = fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=3, min_size=64, max_size=64,
        rpn_batch_size_per_image=1 << 20, box_batch_size_per_image=1 << 20,
    ).to(DEVICE)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
    images = [torch.rand(3, 64, 64).to(DEVICE) for _ in range(2)]
    targets = [{"boxes": boxes(2, 64), "labels": torch.tensor([1, 2], device=DEVICE)} for _ in images]
    losses = []
    for _ in range(4):
        loss = sum(model(images, targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        found = model(images)
    expect_on_device(*(image["boxes"] for image in found))
    return expect_falling(losses)


def main() -> None:
    if not extension._has_ops():
        report(skipped=f"torchvision {__version__} was built for another torch")
        return
    results = {**operators(), "transforms": transformed(), "detector": detected()}
    expect_memory_figures()
    report(float32=results)


if __name__ == "__main__":
    main()
