"""Hugging Face's Trainer under torchrun."""

import tempfile
from typing import Any

import torch
import torch.distributed as dist
from _training import BATCH, EPOCHS, RATE, SAMPLES, make_data, make_model, report
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Rows(Dataset[dict[str, torch.Tensor]]):
    """The samples by name."""

    def __init__(self) -> None:
        self.data = make_data()

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x, y = self.data[index]
        return {"x": x, "labels": y}


class Model(nn.Module):
    """With the loss, as Trainer wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
        """Return the loss."""
        return {"loss": nn.functional.mse_loss(self.model(x), labels)}


class InOrder(Trainer):
    """Samples in their order, so that the result can be compared."""

    def _get_train_sampler(self, *args: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=BATCH // 2, num_train_epochs=EPOCHS, learning_rate=RATE, optim="sgd",
            lr_scheduler_type="constant", max_grad_norm=0.0, report_to=[], save_strategy="no", disable_tqdm=True,
            average_tokens_across_devices=False, dataloader_drop_last=False, weight_decay=0.0,
        )  # fmt: skip
        model = Model()
        trainer = InOrder(model, arguments, train_dataset=Rows(), callbacks=[TrainerCallback()])
        trainer.train()
        devices: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(devices, str(arguments.device))
        if dist.get_rank() == 0:
            report(model.parameters(), devices=devices, backend=dist.get_backend())
