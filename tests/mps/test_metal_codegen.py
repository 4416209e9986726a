"""Inductor's own code generation for Metal, which is what compiles a program on a Mac."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from harness import MPS, child
from torch import nn
from torch.nn import functional

from .shaders import metal

on_mps = child(MPS, seconds=120)


def _several(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    made = torch.zeros(3, device=x.device) + torch.arange(3, device="cuda")
    return x.softmax(1), x.argmax(1), x.half() * 2, x.amin(0), torch.where(x > 0, x, 0.0).long().prod(1), made


@on_mps
def test_results() -> None:
    x = torch.randn(6, 40, device="cuda")
    with metal() as sources:
        compiled = torch.compile(_several, fullgraph=True)(x)
    assert any("kernel void" in source for source in sources)
    for got, wanted in zip(compiled, _several(x), strict=True):
        assert (str(got.device), got.dtype) == (str(wanted.device), wanted.dtype)
        assert torch.allclose(got, wanted, atol=1e-5)


def _step(model: Any, x: torch.Tensor, labels: torch.Tensor) -> float:
    loss = functional.cross_entropy(model(x), labels)
    loss.backward()
    return loss.item()


@on_mps
def test_a_training_step() -> None:
    """Metal's kernels receive GPU tensors, forward and backward."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3)).cuda()
    other = copy.deepcopy(model)
    x, labels = torch.randn(16, 8).cuda(), torch.randint(3, (16,)).cuda()
    with metal() as sources:
        loss = torch.compile(_step)(torch.compile(model), x, labels)
    assert len(sources) >= 2
    assert abs(loss - _step(other, x, labels)) < 1e-5
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        assert mine.grad is not None and theirs.grad is not None
        assert torch.allclose(mine.grad, theirs.grad, atol=1e-5)


@pytest.mark.slow
@on_mps
def test_dynamic_shapes() -> None:
    function = torch.compile(lambda x: (x * 2 + x.shape[0]).sum(0), dynamic=True)
    with metal():
        for rows in (3, 7):
            x = torch.randn(rows, 5, device="cuda")
            assert torch.allclose(function(x), (x * 2 + rows).sum(0), atol=1e-5)
