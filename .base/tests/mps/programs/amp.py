"""Mixed precision: GradScaler and autocast in their old and new spellings, checkpointed activations."""

from __future__ import annotations

import warnings

import torch
from _everyday import data, settled
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

cuda = torch.cuda.is_available()
kind = "cuda" if cuda else "cpu"


def train(dtype: torch.dtype, accumulate: int) -> list[float]:
    model = settled(nn.Sequential(nn.Linear(6, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
    scaler = torch.amp.GradScaler(kind, enabled=dtype is torch.float16, init_scale=2.0**10)
    inputs, losses = torch.from_numpy(data(32, 6)).cuda(), []
    labels = inputs[:, :3].argmax(1)
    for _ in range(4):
        for micro in range(accumulate):
            with torch.autocast(kind, dtype=dtype):
                loss = nn.functional.cross_entropy(model(inputs[micro::accumulate]), labels[micro::accumulate])
            scaler.scale(loss / accumulate).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    state = scaler.state_dict()
    scaler.load_state_dict(state)
    return [round(loss, 1) for loss in losses]  # half precision rounds


def recomputed() -> list[float]:
    layers = settled(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Dropout(0.0), nn.Linear(8, 1))
    ).cuda()
    given = []
    for reentrant in (True, False):
        x = torch.from_numpy(data(5, 4)).cuda().requires_grad_()
        checkpoint(layers, x, use_reentrant=reentrant).sum().backward()
        checkpoint_sequential(layers, 2, x, use_reentrant=reentrant).sum().backward()
        given.append(x.grad.sum().item())
    return given


def main() -> dict[str, object]:
    results: dict[str, object] = {"recomputed": recomputed()}
    for dtype in (torch.float16, torch.bfloat16):
        results[str(dtype)] = [train(dtype, 1), train(dtype, 4)]
    if cuda:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            scaler = torch.cuda.amp.GradScaler()
            with torch.cuda.amp.autocast():
                out = torch.ones(2, 2, device="cuda") @ torch.ones(2, 2).cuda()
                assert out.dtype is torch.float16
            parameter = nn.Parameter(torch.ones(2).cuda())
            optimizer = torch.optim.SGD([parameter], lr=0.1)
            scaler.scale(parameter.sum() * float("inf")).backward()
            scaler.step(optimizer)
            scaler.update()
            assert scaler.get_scale() == 2.0**15  # the step was skipped
            assert parameter.tolist() == [1, 1]
    return results
