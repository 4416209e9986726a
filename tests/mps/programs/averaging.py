"""EMA by deepcopy, a checkpoint saved and resumed, gradients accumulated."""

from __future__ import annotations

import copy
import io
import os
import tempfile
from collections import OrderedDict

import torch
from _everyday import data, settled
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 16, 3)
        self.register_buffer("steps", torch.zeros(1, dtype=torch.long))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return self.head(torch.relu(self.norm(self.conv(x))).flatten(1)) * self.scale


class EMA:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.shadow = {name: p.data.clone() for name, p in model.named_parameters() if p.requires_grad}
        self.module, self.decay = copy.deepcopy(model).eval(), decay

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * p.data
        for ours, theirs in zip(self.module.state_dict().values(), model.state_dict().values(), strict=True):
            ours.copy_(self.decay * ours + (1.0 - self.decay) * theirs)


def main() -> dict[str, object]:
    images = torch.from_numpy(data(16, 1, 4, 4))
    labels = (images.sum((1, 2, 3)) > 0).long()
    loader = DataLoader(TensorDataset(images, labels), batch_size=4)
    model = settled(Net()).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
    ema, averaged = EMA(model, 0.5), AveragedModel(model)
    losses = []

    def epoch() -> None:
        optimizer.zero_grad(set_to_none=True)
        for number, (x, y) in enumerate(loader):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(x), y) / 2
            loss.backward()
            losses.append(loss.item())
            if number % 2:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                ema.update(model)
                averaged.update_parameters(model)

    epoch()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pth")
        torch.save(
            {"epoch": 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "best": losses[-1]},
            path,
        )
        epoch()
        went_on = [losses[-1], model.steps.item()]
        checkpoint = torch.load(path, map_location=lambda storage, loc: storage)
        model = Net().to(device)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=True)
        optimizer.load_state_dict(checkpoint["optimizer"])
        epoch()
        resumed = [losses[-1], model.steps.item()]
        # From DataParallel to a plain module, on the CPU and back.
        torch.save({"module." + k: v for k, v in model.state_dict().items()}, path)
        stripped = OrderedDict((k.replace("module.", ""), v) for k, v in torch.load(path, map_location="cpu").items())
        plain = Net()
        plain.load_state_dict(stripped)
        whole = io.BytesIO()
        torch.save(model, whole)
        whole.seek(0)
        loaded = torch.load(whole, weights_only=False)
    at_home = plain(images).sum().item()
    on_device = plain.cuda()(images.cuda()).sum().item()
    update_bn(loader, averaged, device=device)
    clone = copy.deepcopy(optimizer.state_dict())
    state = clone["state"][0]
    assert state["exp_avg"].device == next(model.parameters()).device
    return {
        "losses": losses,
        "went on": went_on,
        "resumed": resumed,
        "plain": [at_home, on_device],
        "ema": [v.sum().item() for v in ema.shadow.values()],
        "step": float(state["step"]),
        "module": [v.double().sum().item() for v in ema.module.state_dict().values()],
        "averaged": [p.sum().item() for p in averaged.module.parameters()],
        "loaded": [p.sum().item() for p in loaded.parameters()],
    }
