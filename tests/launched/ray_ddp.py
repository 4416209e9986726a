"""Ray Train: TorchTrainer with use_gpu=True, two workers on one machine."""

import os
import tempfile
from typing import Any

import ray
import ray.train.torch
import torch
import torch.distributed as dist
from _training import BATCH, EPOCHS, make_data, make_model, optimizer_of, report
from ray.train import RunConfig, ScalingConfig
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader


def train(config: dict[str, Any]) -> None:
    """Train, in each worker."""
    model = ray.train.torch.prepare_model(make_model())
    optimizer = optimizer_of(model)
    loader = ray.train.torch.prepare_data_loader(DataLoader(make_data(), batch_size=BATCH // 2))
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            mse_loss(model(x), y).backward()
            optimizer.step()
    devices: list[Any] = [None] * dist.get_world_size()
    where = (str(next(model.parameters()).device), os.environ.get("CUDA_VISIBLE_DEVICES"), torch.cuda.device_count())
    dist.all_gather_object(devices, where)
    if dist.get_rank() == 0:
        report(model.parameters(), devices=devices, backend=dist.get_backend())
    ray.train.report({"done": 1})


if __name__ == "__main__":
    ray.init(include_dashboard=False, num_cpus=2)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ray.train.torch.TorchTrainer(
            train,
            scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
            run_config=RunConfig(storage_path=folder, name="run"),
        )
        trainer.fit()
    ray.shutdown()
