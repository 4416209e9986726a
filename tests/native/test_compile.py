"""Code that inductor compiles for the virtual GPU."""

from __future__ import annotations

import copy

import pytest
import torch
from harness import child
from torch import nn

from .bare import COMPILING, native

pytestmark = child(COMPILING, seconds=300)


def _pointwise(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a - 0.5) * b + a.sin()


def _two() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.rand(100, device="cuda"), torch.rand(100, device="cuda")


def test_operators_become_a_kernel() -> None:
    from torch._inductor import metrics

    x, y = _two()
    out = torch.compile(_pointwise, fullgraph=True)(x, y)
    assert out.is_cuda
    assert metrics.generated_kernel_count >= 1
    torch.testing.assert_close(out, _pointwise(x, y))


def test_results_replace_others_of_their_size() -> None:
    x, y = _two()
    compiled = torch.compile(_pointwise, fullgraph=True)
    out = compiled(x, y)
    before = native().memory_allocated(0)
    out = compiled(x, y)
    assert out.is_cuda
    assert native().memory_allocated(0) == before


def test_training() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).cuda()
    other, data = copy.deepcopy(model), torch.rand(5, 8, device="cuda")
    for each in (model, torch.compile(other)):
        each(data).pow(2).sum().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    torch.testing.assert_close(model[1].running_mean, other[1].running_mean)


class _Residual(nn.Module):
    """Backward sees what forward saved: a pooled image in the layout that the compiled convolution chose."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 16, 3, padding=1), nn.Linear(16, 4)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        pooled = nn.functional.max_pool2d(self.first(image).relu(), 3, 2, 1)
        return self.last((pooled + self.second(pooled)).mean((2, 3)))


@pytest.mark.slow
def test_training_convolutions() -> None:
    model, image = _Residual().cuda(), torch.rand(2, 3, 18, 18, device="cuda")
    other = copy.deepcopy(model)
    for each in (model, torch.compile(other)):
        each(image).pow(2).sum().backward()
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def _moving(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return a.cpu() + 1, a + 1, torch.zeros(3, device="cuda"), a


def test_lazily_conjugated_inputs() -> None:
    def double(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_real(x.clone()) * 2

    x = torch.tensor([1 - 1j, 2 + 3j], device="cuda").conj()
    assert x.is_conj()
    torch.testing.assert_close(torch.compile(double)(x), double(x))


def test_results_on_both_devices() -> None:
    x, _ = _two()
    made = torch.compile(_moving, dynamic=True)(x)
    assert [t.device.type for t in made] == ["cpu", "cuda", "cuda", "cuda"]
    assert made[3] is x


def test_moves_copy() -> None:
    host = torch.ones(3)
    arrived = torch.compile(lambda a: a.cuda())(host)
    host.fill_(2)
    assert arrived.is_cuda
    assert arrived.tolist() == [1, 1, 1]


def test_draws_come_from_the_devices_generator() -> None:
    x, generator = _two()[0], native().default_generator(0)
    drop = torch.compile(lambda a: nn.functional.dropout(a, 0.5))
    state = torch.get_rng_state()
    generator.manual_seed(1)
    first = drop(x)
    generator.manual_seed(1)
    assert torch.equal(drop(x), first)
    assert not torch.equal(drop(x), first)
    assert torch.equal(torch.get_rng_state(), state)  # the CPU's is left alone


@pytest.mark.slow
def test_branches_are_compiled_with_the_graph() -> None:
    def choose(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda a, b: a + b, lambda a, b: a - b, (x, y))

    x, y = _two()
    compiled = torch.compile(choose, fullgraph=True)
    for sign in (1, -1):
        torch.testing.assert_close(compiled(sign * x, y), choose(sign * x, y))
