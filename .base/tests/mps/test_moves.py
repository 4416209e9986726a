"""Moves between CUDA and the CPU copy, also where both are the GPU; moves to where a tensor is do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

MOVES = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))

net = Net().cuda()
snapshot = {name: value.cpu() for name, value in net.state_dict().items()}
net.weight.data.zero_()
buffer, kept = torch.zeros(2), []
for step in range(3):
    buffer.fill_(step)
    kept.append(buffer.cuda())
rows = torch.zeros(2, 2)
row = rows[0].to("cuda:0", non_blocking=True); rows += 1
home = torch.ones(2, device="cuda"); away = home.to("cpu"); home.zero_()
named = torch.zeros(2, device="cpu"); other = named.to(torch.device("cuda"), torch.float32, False); named += 1
again = away.cuda(); away.zero_()
model = torch.nn.Linear(2, 2); weight = model.weight; model.cuda()
leaf = torch.ones(2, device="cuda", requires_grad=True)
x, y = torch.ones(2), torch.ones(2, device="cuda")
result = [snapshot["weight"].tolist(), [k.tolist() for k in kept], row.tolist(), other.tolist(), again.tolist(),
          x.cpu() is x, x.to("cpu") is x, y.cuda() is y, y.to("cuda:0") is y, y.cpu().cpu().tolist(),
          model.weight is weight, leaf.cuda() is leaf, y.to("mps") is y]
"""


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
def test_moves_copy_as_on_cuda(on_mps: Callable, policy: str) -> None:
    expected = [[1, 1], [[0, 0], [1, 1], [2, 2]], [0, 0], [0, 0], [1, 1], *[True] * 4, [1, 1], True, True, True]
    assert on_mps(MOVES, policy=policy) == expected


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
def test_modules_of_float64(on_mps: Callable, policy: str) -> None:
    body = """
    import numpy
    model = torch.nn.Linear(2, 2).double().to("cuda")
    out = model(torch.from_numpy(numpy.ones((1, 2))).to("cuda"))
    result = [out.is_cuda, str(out.dtype), list(out.shape)]
    """
    assert on_mps(body, policy=policy) == [True, "torch.float32", [1, 2]]


def test_quasirandom_numbers_meet_the_rest(on_mps: Callable) -> None:
    body = """
    result = [(torch.quasirandom.SobolEngine(2, scramble=scramble, seed=1).draw(4) + torch.zeros(4, 2)).tolist()
              for scramble in (True, False)]
    """
    assert on_mps(body, policy="accelerate") == on_mps(body, policy="faithful")
