"""Operators of torch's that inductor has no code for: in compiled graphs, too, they are the device's, not the CPU's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as functional
from harness import MPS_FAITHFUL, VIRTUAL, child, in_child

on_the_device = child(VIRTUAL, seconds=300)


def _make(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(3)
    return torch.randn(*shape, dtype=dtype, device="cuda")


def _compare(function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Check that a function gives compiled what it gives eagerly, laid out as that."""
    torch._dynamo.reset()
    expected, made = function(*args), torch.compile(function, fullgraph=True, **options)(*args)
    for one, other in zip(expected, made, strict=True):
        assert (one.dtype, one.device, one.shape) == (other.dtype, other.device, other.shape)
        assert one.stride() == other.stride(), (one.stride(), other.stride())
        torch.testing.assert_close(other, one, equal_nan=True)


@on_the_device
def test_medians_of_expanded_tensors() -> None:
    """The CPU's kernel gives garbage for these, and the device's does not."""

    def find(x: torch.Tensor) -> Any:
        wide = x.t().expand(3, 7, 5)
        return (wide.median(0)[0], wide.nanmedian(0)[0], wide.median(), x.mode(0)[0])

    _compare(find, _make(5, 7))


@on_the_device
@pytest.mark.skipif(torch.__version__ < "2.13", reason="before 2.13 an H200 refuses the last one, too")
@pytest.mark.parametrize("is_dynamic", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_transforms_are_laid_out_as_cudas(is_dynamic: bool) -> None:
    def transform(x: torch.Tensor, z: torch.Tensor) -> Any:
        fft = torch.fft
        return (
            fft.fft(x, dim=0),
            fft.rfft(x, dim=0),
            fft.ihfft(x, dim=0),
            fft.ifft(z.expand(7, 33), dim=-2, norm="ortho"),
            fft.irfft(x * 1j, dim=0),
            fft.fftn(x.t() * 1j),
        )

    _compare(transform, _make(7, 33), _make(7, 1), dynamic=is_dynamic)


@pytest.mark.slow
@on_the_device
def test_factors_are_laid_out_as_cudas() -> None:
    def factorize(x: torch.Tensor, b: torch.Tensor) -> Any:
        symmetric = x @ x.mT + torch.eye(4, device=x.device)
        solved = torch.linalg.solve_triangular(symmetric, b.mT, upper=True)
        return (*torch.linalg.svd(x, full_matrices=False), torch.linalg.eigvals(x), torch.linalg.inv(symmetric), solved)

    _compare(factorize, _make(2, 4, 4), _make(2, 3, 4))


@pytest.mark.slow
@on_the_device
def test_bags_of_embeddings() -> None:
    """The operator's other results have other shapes on CUDA."""
    offsets = torch.tensor([0, 2, 4], device="cuda")
    indices = torch.tensor([1, 3, 5, 7, 9, 11], device="cuda")

    def look_up(weight: torch.Tensor) -> Any:
        made = [functional.embedding_bag(indices, weight, offsets, mode=mode) for mode in ("sum", "mean", "max")]
        return (*made, *torch.autograd.grad(sum(one.square().sum() for one in made), weight))

    def compiled_look_up(weight: torch.Tensor) -> Any:
        made = torch.compile(lambda w: [functional.embedding_bag(indices, w, offsets, mode=m) for m in modes])(weight)
        return (*made, *torch.autograd.grad(sum(one.square().sum() for one in made), weight))

    modes = ("sum", "mean", "max")
    weight = _make(20, 3).requires_grad_()
    for one, other in zip(look_up(weight), compiled_look_up(weight), strict=True):
        torch.testing.assert_close(other, one)


@on_the_device
def test_results_that_are_left_out() -> None:
    """Omit the gradients of a convolution that are not requested."""
    x, weight, bias = _make(2, 1, 5, 3), _make(1, 1, 3, 1).requires_grad_(), _make(1).requires_grad_()

    def convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.conv_transpose2d(x, weight, bias, dilation=2)

    grads = [
        torch.autograd.grad(call(x, weight, bias).square().sum(), (weight, bias))
        for call in (convolve, torch.compile(convolve))
    ]
    torch.testing.assert_close(grads[1], grads[0])


@on_the_device
def test_random_operators_draw_once() -> None:
    """Random operators of a graph have one seed, whatever else is called in it."""

    def draw(x: torch.Tensor) -> Any:
        return torch.rand_like(x), x.median(0)[0], torch.multinomial(x.abs() + 0.1, 4), torch.randperm(5, device="cuda")

    compiled, x = torch.compile(draw, fullgraph=True), _make(5, 7)
    compiled(x)
    made = []
    for _ in range(2):
        torch.manual_seed(7)
        made.append([value.tolist() for value in (*compiled(x), *compiled(x))])
    assert made[0] == made[1]
    assert made[0][0] != made[0][4]


@on_the_device
def test_tensors_of_the_host_stay_its() -> None:
    def sort(x: torch.Tensor, host: torch.Tensor) -> Any:
        return x.sort(0)[0], host.sort(0)[0], host.median(0)[0]

    _compare(sort, _make(5, 7), _make(5, 7).cpu())


@on_the_device
def test_a_capture_replays_them() -> None:
    x = _make(3, 5)
    compiled = torch.compile(lambda x: (x * 2).expand(4, 3, 5).median(0)[0] + 1, fullgraph=True)
    compiled(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x)
    for number in range(2):
        x.fill_(number + 1)
        graph.replay()
        assert torch.equal(y, x * 2 + 1)


@pytest.mark.slow
@child(MPS_FAITHFUL, seconds=300)
def test_an_apple_gpu_computes_what_it_lacks() -> None:
    def find(x: torch.Tensor) -> Any:
        return torch.cummax(x, 0)[0], torch.linalg.qr(x)[0], x.median(0)[0], torch.cumsum(x > 0, 0)

    x = torch.randn(5, 7, device="mps")
    for one, other in zip(find(x.cpu()), torch.compile(find, fullgraph=True)(x), strict=True):
        torch.testing.assert_close(other.cpu(), one)


def _count_hits() -> list[Any]:
    """Compile a function; what it gives, and how often the code was found in inductor's cache."""
    from torch._dynamo.utils import counters

    x = torch.arange(15.0, device="cuda").reshape(3, 5)
    made = torch.compile(lambda x: (x + 1).expand(4, 3, 5).median(0)[0].sum())(x)
    return [made.item(), counters["inductor"]["fxgraph_cache_hit"]]


@pytest.mark.native
@pytest.mark.slow
def test_code_that_is_kept_calls_them(tmp_path: Path) -> None:
    place = VIRTUAL.within(TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert [in_child(_count_hits, place, seconds=300) for _ in range(2)] == [[120.0, 0], [120.0, 1]]
