"""Results do not depend on how arguments are laid out, even where a kernel of the CPU's does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import VIRTUAL, child, python
from torch.nn import functional


def _of_copies(call: Callable[..., Any], *arguments: torch.Tensor) -> None:
    """Compare results and gradients with those of contiguous copies."""
    results = []
    for given in (arguments, [each.contiguous() for each in arguments]):
        leaves = [each.detach().requires_grad_() for each in given]
        made = call(*leaves)
        grads = torch.autograd.grad(made, leaves, made.new_ones(()).expand(made.shape), allow_unused=True)
        results.append([made, *grads])
    torch.testing.assert_close(results[0], results[1])


@child(VIRTUAL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["median", "nanmedian"])
def test_medians_of_expanded_tensors(name: str, dtype: str) -> None:
    x = torch.rand(4, 1, dtype=getattr(torch, dtype), device="cuda").expand(4, 5)
    median = getattr(torch, name)
    for dim in (0, 1):
        torch.testing.assert_close(median(x, dim).values, median(x.contiguous(), dim).values)
    assert median(x[0], 0).values == x[0, 0]


@child(VIRTUAL)
def test_medians_in_a_graph() -> None:
    given = torch.rand(4, 1, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = given.expand(4, 5).median(1).values
    for _ in range(2):
        given.copy_(torch.rand(4, 1))
        graph.replay()
        assert torch.equal(made, given[:, 0])


@child(VIRTUAL)
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3), (2, 5, 3, 3)])
def test_batch_norm_with_an_expanded_weight(shape: tuple[int, ...]) -> None:
    x = torch.rand(shape, dtype=torch.float64, device="cuda")
    weight, bias = (torch.rand(1, dtype=torch.float64, device="cuda").expand(5) for _ in range(2))
    for training in (True, False):
        mean, variance = torch.rand(2, 1, 1, dtype=torch.float64, device="cuda").expand(2, 1, 5)[:, 0]
        if training:
            mean, variance = None, None
        _of_copies(
            lambda x, w, b, m=mean, v=variance, t=training: functional.batch_norm(x, m, v, w, b, t), x, weight, bias
        )


@child(VIRTUAL)
def test_group_norm_with_an_expanded_weight() -> None:
    x, weight = torch.rand(2, 6, 3, device="cuda"), torch.rand(1, device="cuda").expand(6)
    _of_copies(lambda x, w: torch.native_group_norm(x, w, w, 2, 6, 3, 2, 1e-5)[0], x, weight)


@child(VIRTUAL)
def test_distances_of_no_points() -> None:
    x = torch.rand(0, 2, device="cuda", requires_grad=True)
    functional.pdist(x).sum().backward()
    assert x.grad.shape == (0, 2)


@child(VIRTUAL)
def test_overlapping_elements_are_filled_but_not_copied_to() -> None:
    x = torch.ones(1, device="cuda").expand(5)
    x[:] = 2
    assert x.tolist() == [2.0] * 5
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x[:] = torch.ones(5, device="cuda")


@child(VIRTUAL)
@pytest.mark.parametrize("target", ["float32", "float16", "bfloat16", "float64"])
def test_copies_of_negated_views(target: str) -> None:
    """As z.conj().imag is one."""
    for source in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        torch._neg_view(torch.zeros(5, dtype=source, device="cuda")).copy_(torch.ones(5, dtype=torch.bool))
        for here, there in (("cuda", "cuda"), ("cpu", "cuda"), ("cuda", "cpu")):
            given = torch.full((5,), 2.75, dtype=source, device=here)
            made = torch.zeros(5, dtype=getattr(torch, target), device=there)
            made.copy_(torch._neg_view(given))
            assert made.tolist() == [-2.75] * 5, (source, here, there)
            torch._neg_view(made).copy_(given)
            assert made.tolist() == [-2.75] * 5, (source, here, there)
            torch._neg_view(made).copy_(torch.full((5,), 3, dtype=torch.uint8, device=here))
            assert made.tolist() == [-3.0] * 5, (source, here, there)


def _sweep(*options: str) -> None:
    tool = Path(__file__).parents[2] / "tools" / "op_layouts.py"
    python(str(tool), "--driver", "virtual", *options, timeout=3600)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int64", "bool"])
def test_values_do_not_depend_on_layouts(dtype: str) -> None:
    _sweep("--dtype", dtype, "--samples", "8")
