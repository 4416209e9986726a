"""Lightning: a module fitted with ``accelerator="gpu"``, in 16-bit mixed precision, checkpointed and tested."""

from __future__ import annotations

import logging
import tempfile
import warnings

import torch
from _client import DEVICE, ON_CUDA, expect_falling, expect_memory_figures, expect_on_device, report
from lightning import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import DeviceStatsMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# Advice on the number of workers and of logging steps is meant for real runs.
warnings.filterwarnings("ignore", module="lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 4)
        )
        self.losses: list[float] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.layers(images)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        images, labels = batch
        expect_on_device(images, labels)
        assert self.device.type == DEVICE
        loss = nn.functional.cross_entropy(self(images), labels)
        self.log("train_loss", loss, on_step=True)
        self.losses.append(loss.item())
        return loss

    def test_step(self, batch: list[torch.Tensor], index: int) -> None:
        images, labels = batch
        self.log("accuracy", (self(images).argmax(1) == labels).float().mean())

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)}


def loader() -> DataLoader:
    generator = torch.Generator().manual_seed(3)
    images = torch.randn(64, 1, 8, 8, generator=generator)
    labels = images.mean((1, 2, 3)).argsort().argsort() // 16
    return DataLoader(TensorDataset(images, labels), batch_size=16, pin_memory=True)


def train(precision: str) -> dict[str, object]:
    seed_everything(0, verbose=False)
    module = Classifier()
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = ModelCheckpoint(folder, save_last=True)
        callbacks = [checkpoint, DeviceStatsMonitor(cpu_stats=False)]
        trainer = Trainer(
            accelerator="gpu" if ON_CUDA else "cpu",
            devices=1,
            precision=precision,
            max_epochs=3,
            gradient_clip_val=1.0,
            logger=CSVLogger(folder),
            log_every_n_steps=1,
            callbacks=callbacks,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(module, loader())
        tested = trainer.test(module, loader(), ckpt_path=checkpoint.last_model_path, verbose=False, weights_only=False)
    return {"losses": expect_falling(module.losses), "accuracy": tested[0]["accuracy"]}


def main() -> None:
    results = {"float32": train("32-true")}
    if ON_CUDA:
        results["float16"] = train("16-mixed")
    expect_memory_figures()
    report(**results)


if __name__ == "__main__":
    main()
