"""Modules whose parameters have no shape until they are first called move like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from conftest import EMULATION, run_python

PROGRAM = """
model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.LazyLinear(1))
model = {move}
before = [type(p).__name__ for p in model.parameters()]
x = torch.linspace(-1, 1, 12, device="{device}").reshape(4, 3)
model(x)
with torch.no_grad():
    for p in model.parameters():
        p.copy_(torch.linspace(-0.5, 0.5, p.numel(), device="{device}").reshape(p.shape))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad(); loss = model(x).square().mean(); loss.backward(); optimizer.step()
    losses.append(loss.item())
result = [before, losses]
"""


def test_a_lazy_model_trains(place: dict[str, str], answer: Callable[..., Any]) -> None:
    stock = PROGRAM.format(move="model.float().to('cpu')", device="cpu")
    expected = json.loads(run_python(f"import json, torch\n{stock}\nprint(json.dumps(result))").stdout)
    moved = PROGRAM.format(move="model.cuda().float().to('cuda')", device="cuda")
    before, losses = answer(moved, env=EMULATION.get(place["driver"]), **place)
    assert before == expected[0] == ["UninitializedParameter"] * 4
    assert losses == pytest.approx(expected[1], rel=1e-5)
