"""A small conv net learns on the device as on the CPU.

The reference is stock torch on the CPU, in its own process. Neither weights nor data are random, because each device
has its own random numbers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from ..asking import Finding, expect, main, question

_STEPS, _BATCH = 6, 16
#: Relative tolerances of losses: float32, and float16 products.
_NEAR, _NEAR_AMP = 0.01, 0.06
_REFERENCE_S = 50
_ALONE = "--reference"


def _values(*shape: int, scale: float = 1.0) -> torch.Tensor:
    """Return values that are equal on every device, to the last bit."""
    count = torch.Size(shape).numel()
    return torch.tensor([scale * (index * 37 % 101 - 50) / 50 for index in range(count)]).reshape(shape)


def _model() -> nn.Module:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1, stride=2),
        nn.GELU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.LayerNorm(64),
        nn.Linear(64, 10),
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(_values(*parameter.shape, scale=parameter[0].numel() ** -0.5))
            elif name.endswith("bias"):
                parameter.zero_()
    return model


def _losses(move: Callable[[nn.Module | torch.Tensor], object], amp: bool = False) -> list[float]:
    """Return the losses of a few steps of AdamW."""
    model = _model()
    move(model)
    inputs, labels = _values(_BATCH, 3, 16, 16), torch.arange(_BATCH) % 10
    if amp or move is _to_cuda:
        inputs, labels = inputs.cuda(), labels.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cuda", init_scale=256.0, enabled=amp)  # small enough that no step is skipped
    found = []
    for _ in range(_STEPS):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
            loss = functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    return found


def _to_cuda(value: nn.Module | torch.Tensor) -> object:
    return value.cuda()


def _reference() -> list[float]:
    """Return stock torch's result on the CPU."""
    environment = {**os.environ, "TORCHDEVICE_AUTO": "0"}
    command = [sys.executable, "-m", str(__spec__.name), _ALONE]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, check=True, timeout=_REFERENCE_S, stdin=subprocess.DEVNULL
    )
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


_known: list[list[float]] = []


def _compare(found: list[float], near: float) -> Finding:
    if not _known:
        _known.append(_reference())
    reference = _known[0]
    apart = max(abs(one - other) / abs(other) for one, other in zip(found, reference, strict=True))
    figures = {"losses": found, "of the CPU": reference, "largest relative distance": apart}
    expect(apart <= near, f"the losses are {found}, of the CPU {reference}")
    expect(found[-1] < found[0], f"nothing is learned: {found}")
    return f"losses within {apart:.1e} of the CPU's", figures


@question
def float32() -> Finding:
    return _compare(_losses(_to_cuda), _NEAR)


@question
def float16_with_amp() -> Finding:
    return _compare(_losses(_to_cuda, amp=True), _NEAR_AMP)


@question
def saved_and_loaded() -> Finding:
    import io

    model, file = _model().cuda(), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = _model().cuda()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.zero_()
    other.load_state_dict(torch.load(file, map_location="cuda", weights_only=True))
    inputs = _values(2, 3, 16, 16).cuda()
    model.eval()
    other.eval()
    expect(torch.equal(model(inputs), other(inputs)), "a model that was saved and loaded computes something else")
    return None


if __name__ == "__main__":
    if sys.argv[1:] == [_ALONE]:
        print(json.dumps(_losses(lambda value: value)))
    else:
        main()
