"""TorchScript and torch.compile of small models."""

from __future__ import annotations

import io
import os
import tempfile

import torch
from _everyday import data, settled
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        state = torch.zeros(x.size(0), 4, device=x.device)
        for _ in range(times):
            state = torch.tanh(self.linear(x) + state) + self.offset
        return state


@torch.jit.script
def clipped(x: torch.Tensor, low: float) -> torch.Tensor:
    return torch.clamp(x, min=low) * torch.rand_like(x).mul(0).add(1)


def main() -> dict[str, object]:
    x = torch.from_numpy(data(3, 4)).to(device)
    model = settled(Gate()).to(device)
    scripted = torch.jit.script(model)
    traced = torch.jit.trace(model.linear, x)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        scripted.save(path)
        loaded = torch.jit.load(path, map_location=device)
        on_device = torch.jit.load(path).to(device)
        held = io.BytesIO()
        torch.jit.save(traced, held)
        held.seek(0)
        revived = torch.jit.load(held, map_location=torch.device(device))
    found = {"script": scripted(x, 3), "loaded": loaded(x, 2), "sent": on_device(x, 2), "trace": revived(x)}
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        compiled = torch.compile(nn.Sequential(model.linear, nn.GELU(), nn.LayerNorm(4).to(device)), backend=backend)
        y = x.clone().requires_grad_()
        out = compiled(y)
        out.square().sum().backward()
        found[backend], found[backend + " grad"] = out, y.grad
    frozen = torch.jit.freeze(scripted.eval())
    found["frozen"], found["clipped"] = frozen(x, 1), clipped(x, 0.1)
    assert all(value.is_cuda == torch.cuda.is_available() for value in found.values())
    return {name: value.detach().cpu().tolist() for name, value in found.items()}
