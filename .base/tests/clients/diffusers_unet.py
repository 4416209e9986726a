"""diffusers: a tiny UNet learns to remove noise, then samples with a generator of the device."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from diffusers import DDIMScheduler, DDPMPipeline, DDPMScheduler, UNet2DModel


def tiny_unet() -> UNet2DModel:
    seed()
    return UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 16),
        norm_num_groups=4,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )


def train(unet: UNet2DModel, half: bool) -> list[float]:
    unet = unet.to(DEVICE).train()
    scheduler = DDPMScheduler(num_train_timesteps=50)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler(DEVICE, enabled=half)
    generator = torch.Generator(DEVICE).manual_seed(7)
    images = torch.ones(8, 1, 8, 8).to(DEVICE, non_blocking=True)
    # One batch of noise, so that the loss is that of the model and not of the draw.
    noise = torch.randn(images.shape, generator=generator, device=DEVICE)
    steps = torch.randint(0, 50, (8,), generator=generator, device=DEVICE)
    noisy = scheduler.add_noise(images, noise, steps)
    expect_on_device(noise, steps, noisy)
    losses = []
    for _ in range(8):
        with torch.autocast(DEVICE, dtype=torch.float16, enabled=half):
            predicted = unet(noisy, steps).sample
            loss = torch.nn.functional.mse_loss(predicted.float(), noise)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    if ON_CUDA:
        torch.cuda.synchronize()
    return expect_falling(losses)


def sample_by_hand(unet: UNet2DModel) -> float:
    """The sampling loop that diffusers' documentation writes out."""
    scheduler = DDIMScheduler(num_train_timesteps=50)
    scheduler.set_timesteps(5, device=DEVICE)
    expect_on_device(scheduler.timesteps)
    generator = torch.Generator(device=DEVICE).manual_seed(11)
    sample = torch.randn(2, 1, 8, 8, generator=generator, device=DEVICE)
    unet.eval()
    for step in scheduler.timesteps:
        with torch.inference_mode():
            residual = unet(sample, step).sample
        sample = scheduler.step(residual, step, sample, generator=generator, eta=0.5).prev_sample
    expect_on_device(sample)
    return sample.abs().mean().item()


def sample_by_pipeline(unet: UNet2DModel) -> float:
    pipeline = DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=50)).to(DEVICE)
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator(DEVICE).manual_seed(13)
    images = pipeline(batch_size=2, generator=generator, num_inference_steps=5, output_type="np").images
    assert images.shape == (2, 8, 8, 1)
    return float(images.mean())


def main() -> None:
    unet = tiny_unet()
    losses = train(unet, half=False)
    results = {"float32": {"losses": losses, "sample": sample_by_hand(unet), "images": sample_by_pipeline(unet)}}
    if ON_CUDA:
        half = tiny_unet()
        results["float16"] = {"losses": train(half, half=True)}
        half = half.half()
        seen = half(torch.randn(1, 1, 8, 8, device=DEVICE, dtype=torch.float16), 3).sample
        assert seen.dtype is torch.float16
        assert seen.isfinite().all()
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
