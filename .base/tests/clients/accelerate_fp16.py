"""accelerate: a training loop under Accelerator, in mixed precision with its GradScaler."""

from __future__ import annotations

import tempfile

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report, seed
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(mixed_precision: str) -> list[float]:
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(mixed_precision=mixed_precision)
    assert accelerator.device.type == DEVICE
    if mixed_precision == "fp16":
        assert accelerator.scaler is not None
        assert accelerator.scaler.is_enabled()
    set_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 1))
    inputs = torch.randn(64, 16)
    loader = DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=16, pin_memory=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=8)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    expect_on_device(*model.parameters())

    losses = []
    for epoch in range(3):
        for batch, wanted in loader:
            expect_on_device(batch, wanted)
            with accelerator.accumulate(model), accelerator.autocast():
                loss = nn.functional.mse_loss(model(batch), wanted)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
        if epoch == 1:
            with tempfile.TemporaryDirectory() as folder:
                accelerator.save_state(folder)
                accelerator.load_state(folder)
    accelerator.wait_for_everyone()
    assert not accelerator.optimizer_step_was_skipped
    accelerator.free_memory()
    return expect_falling(losses)


def main() -> None:
    seed()
    results = {"float32": {"losses": train("no")}}
    if ON_CUDA:
        results["float16"] = {"losses": train("fp16")}
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
