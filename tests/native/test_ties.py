"""Test that sort, topk, mode and others choose among equal elements like a GPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import child
from recorded import find_differences, ties
from recorded.ties import make_tensor

from .bare import bare

pytestmark = child(bare())


@pytest.mark.parametrize("function", ties.FUNCTIONS)
def test_as_recorded_on_a_gpu(function: str) -> None:
    assert find_differences(ties, lambda name: name.split()[0] == function) == {}


KEPT: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "topk": lambda x, dim: torch.topk(x, 3, dim),
    "least": lambda x, dim: torch.topk(x, 3, dim, largest=False, sorted=False),
    "sort": lambda x, dim: torch.sort(x, dim),
    "descending": lambda x, dim: torch.sort(x, dim, descending=True),
    "mode": lambda x, dim: torch.mode(x, dim, keepdim=True),
    "kthvalue": lambda x, dim: torch.kthvalue(x, 4, dim, keepdim=True),
}
NOT_KEPT: dict[str, Callable[..., tuple[torch.Tensor, torch.Tensor]]] = {
    "mode": torch.mode,
    "kthvalue": lambda x, dim: torch.kthvalue(x, 4, dim),
}


@pytest.mark.parametrize("name", KEPT)
def test_along_any_dimension(name: str) -> None:
    x = make_tensor("float32", 2 * 9 * 3, 4).reshape(2, 9, 3)
    values, indices = KEPT[name](x, 1)
    assert torch.equal(x.gather(1, indices), values)
    for i in range(2):
        for j in range(3):
            line = KEPT[name](x[i, :, j].contiguous(), 0)
            assert torch.equal(indices[i, :, j], line[1])
            assert torch.equal(values[i, :, j], line[0])


@pytest.mark.parametrize("name", NOT_KEPT)
def test_a_dimension_that_is_not_kept(name: str) -> None:
    x = make_tensor("float32", 2 * 9, 4).reshape(2, 9)
    for i in range(2):
        assert torch.equal(NOT_KEPT[name](x, 1)[1][i], NOT_KEPT[name](x[i], 0)[1])


def test_into_the_tensor_itself() -> None:
    x, indices = make_tensor("float32", 9, 3), torch.empty(9, dtype=torch.int64, device="cuda")
    expected = torch.sort(x)
    values = x.clone()
    torch.sort(values, out=(values, indices))
    assert torch.equal(values, expected.values) and torch.equal(indices, expected.indices)


def test_a_stable_sort_keeps_the_order() -> None:
    x = make_tensor("float32", 20, 3)
    expected = torch.sort(x.cpu(), stable=True).indices
    assert torch.equal(torch.sort(x, stable=True).indices.cpu(), expected)
    assert torch.equal(torch.argsort(x, stable=True).cpu(), expected)
    assert torch.equal(torch.argsort(x), torch.sort(x).indices)
    assert not torch.equal(torch.argsort(x).cpu(), expected)


def test_selecting_tells_zeros_apart_by_their_sign() -> None:
    x = torch.tensor([-0.0, 0.0, -0.0, 0.0, -1.0], device="cuda")
    assert sorted(torch.topk(x, 2).indices.tolist()) == [1, 3]
    assert sorted(torch.topk(x, 3).indices.tolist()) == [0, 1, 3]
    assert sorted(torch.topk(x, 3, largest=False).indices.tolist()) == [0, 2, 4]


def test_numbers_that_are_none() -> None:
    x = torch.tensor([1.0, float("nan"), 3.0, float("nan"), 3.0, 2.0], device="cuda")
    assert torch.topk(x, 3).indices.tolist() == [3, 1, 2]
    assert torch.mode(x).values.item() == 3
    assert torch.mode(x).indices.item() == 4
    assert torch.kthvalue(x, 6).indices.item() == 1
