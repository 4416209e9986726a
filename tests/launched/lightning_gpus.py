"""Lightning: Trainer(accelerator="gpu", devices=2, strategy=...), which starts the second process itself."""

import contextlib
import sys

import torch
from _training import BATCH, EPOCHS, make_data, make_model, optimizer_of, report
from lightning.pytorch import LightningModule, Trainer
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


class Module(LightningModule):
    """The model, as Lightning wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()
        self.weights: list[torch.Tensor] = []
        self.devices: list[str] = []

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of one batch."""
        x, y = batch
        return mse_loss(self.model(x), y)

    def on_train_end(self) -> None:
        """The weights, which may be in parts, and where every rank was."""
        model = self.trainer.model
        sharded = isinstance(model, FullyShardedDataParallel)
        with FullyShardedDataParallel.summon_full_params(model) if sharded else contextlib.nullcontext():
            self.weights = [parameter.detach().clone() for parameter in model.parameters()]
        indices = self.all_gather(torch.tensor(self.device.index, device=self.device))
        self.devices = [f"{self.device.type}:{int(index)}" for index in indices.flatten()]

    def train_dataloader(self) -> DataLoader[tuple[torch.Tensor, ...]]:
        """In order: Lightning's own sampler shuffles."""
        data, world = make_data(), self.trainer.world_size
        sampler = DistributedSampler(data, world, self.trainer.global_rank, shuffle=False)
        return DataLoader(data, batch_size=BATCH // world, sampler=sampler)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Its optimizer."""
        return optimizer_of(self.trainer.model)


if __name__ == "__main__":
    trainer = Trainer(
        accelerator="gpu", devices=2, strategy=sys.argv[1], max_epochs=EPOCHS, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    module = Module()
    trainer.fit(module)
    if trainer.is_global_zero:
        report(module.weights, devices=module.devices)
