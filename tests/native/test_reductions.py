"""Reductions of float32 on the virtual GPU combine elements in the order of CUDA's kernel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import VIRTUAL, child
from recorded import bits, case_sets, store
from torch.nn import functional

pytestmark = child(VIRTUAL)
RECORDED = store.read_answers(case_sets.load_set("bits").record)
OPERATORS = ["sum", "mean", "prod", "norm", "var", "mse_loss"]


def draw(*shape: int) -> torch.Tensor:
    return bits.draw(shape, "float32")


@pytest.mark.parametrize("operator", OPERATORS)
def test_same_bits_as_an_h200(operator: str) -> None:
    cases = [case for case in RECORDED if case.startswith(f"{operator} float32 ")]
    assert len(cases) >= 12
    assert {case: bits.find_digest(case) for case in cases} == {case: RECORDED[case] for case in cases}


REDUCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "norm": torch.linalg.vector_norm,
    "var": torch.var,
    "std": torch.std,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((5, 130), 1),
        ((100, 1001), 1),
        ((7, 33), 1),
        ((40, 9), 1),
        ((3, 50001), 1),
        ((40001,), 0),
        ((9, 1000, 6), 1),
        ((257, 300), 0),
        ((2000, 2, 3), (0,)),
        ((4, 5, 6, 7), (2, 3)),
        ((4, 5, 6, 7), (0, 1)),
        ((4, 5, 6, 7), (1, 2)),
        ((4, 5, 6, 7), (0, 2)),
    ],
)
def test_close_to_exact_values(name: str, shape: tuple[int, ...], dims: int | tuple[int, ...]) -> None:
    """Rows begin at every offset from an aligned address; blocks, strips and rounds have remainders."""
    x, call = draw(*shape), REDUCTIONS[name]
    exact = call(x.cpu().double(), dim=dims)
    for keeps in (False, True):
        found = call(x, dim=dims, keepdim=keeps)
        wanted = call(x.cpu().double(), dim=dims, keepdim=keeps)
        assert found.shape == wanted.shape
        torch.testing.assert_close(found.cpu().double(), wanted, rtol=2e-5, atol=1e-3)
    permuted = x.movedim(-1, 0)
    moved = [(d + 1) % x.dim() for d in ((dims,) if isinstance(dims, int) else dims)]
    values = call(permuted, dim=moved).flatten().sort()[0].cpu().double()
    torch.testing.assert_close(values, exact.flatten().sort()[0], rtol=2e-5, atol=1e-3)


def test_layouts_in_memory_have_one_order() -> None:
    x = draw(64, 1000)
    assert x.t().sum(0).equal(x.sum(1))
    assert x.t().var(0).equal(x.var(1))
    assert x[None].sum(2, keepdim=True).view(-1).equal(x.sum(1))
    images = draw(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    assert images.sum((0, 2, 3)).equal(images.permute(0, 2, 3, 1).reshape(-1, 3).sum(0))


def test_special_values() -> None:
    x = torch.zeros(200, device="cuda")
    x[130] = torch.inf
    assert x.sum() == torch.inf
    x[3] = -torch.inf
    assert x.sum().isnan()
    assert (-torch.zeros(200, device="cuda")).sum().signbit().item() is False
    assert torch.zeros(0, 3, device="cuda").sum(0).tolist() == [0, 0, 0]
    assert torch.zeros(0, device="cuda").mean().isnan()
    assert torch.ones(3, 1, device="cuda").sum(1).tolist() == [1, 1, 1]
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.ones(1, 2, device="cuda").var(0).isnan().all()
    with pytest.warns(UserWarning, match="degrees of freedom"):
        assert torch.arange(2.0, device="cuda").var(0, correction=2).isinf()


def test_other_arguments() -> None:
    x = draw(20, 30)
    with pytest.raises(IndexError):
        x.sum(2)
    with pytest.raises(RuntimeError, match="multiple times"):
        x.sum((0, 0))
    assert x.sum(0, dtype=torch.float64).dtype == torch.float64
    assert x.half().sum().dtype == torch.float16
    assert x.int().sum().dtype == torch.int64
    out = torch.empty(30, device="cuda")
    assert torch.sum(x, 0, out=out) is out
    torch.testing.assert_close(out, x.sum(0))
    assert x.sum(()).equal(x.sum())
    assert torch.linalg.vector_norm(x, 1).allclose(x.abs().sum())
    deviation, mean = torch.std_mean(x, 1, correction=0)
    assert deviation.equal(x.std(1, correction=0))
    assert mean.allclose(x.mean(1))


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "huber_loss"])
def test_losses_reduce_in_order(name: str) -> None:
    loss = getattr(functional, name)
    x, target = draw(70, 50).requires_grad_(), draw(50, 70).t()
    each = loss(x, target, reduction="none")
    assert loss(x, target).equal(each.mean())
    assert loss(x, target, reduction="sum").equal(each.sum())
    loss(x, target).backward()
    host = x.detach().cpu().requires_grad_()
    loss(host, target.cpu()).backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad.cpu(), host.grad)


def test_a_captured_sum_is_replayed_in_order() -> None:
    x, graph = draw(1000, 64), torch.cuda.CUDAGraph()
    x.sum(0), x.mean(), x.var(0)
    kept = x.clone()
    with torch.cuda.graph(graph):
        found = [kept.sum(0), kept.mean(), kept.var(0)]
    kept.zero_()
    graph.replay()
    assert [t.any().item() for t in found] == [False] * 3
    kept.copy_(x)
    graph.replay()
    assert all(a.equal(b) for a, b in zip(found, [x.sum(0), x.mean(), x.var(0)], strict=True))
