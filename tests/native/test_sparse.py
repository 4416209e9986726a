"""Sparse tensors: what is written into them, where they are made, how they add up."""

from __future__ import annotations

import pytest
import torch
from harness import child

from .bare import bare

pytestmark = child(bare(devices=2))
UNARY = ("sqrt", "abs", "sin", "log1p", "ceil", "neg", "erf", "sgn")


def _sparse(device: str = "cuda") -> torch.Tensor:
    indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
    return torch.sparse_coo_tensor(indices, torch.tensor([3.0, 4.0, 5.0]), (2, 3)).coalesce().to(device)


@pytest.mark.parametrize("shape", [(2, 3), (0,)])
def test_resizing_in_place_keeps_the_elements(shape: tuple[int, ...]) -> None:
    for name in UNARY:
        out = torch.sparse_coo_tensor(size=shape, device="cuda")
        assert getattr(torch, name)(_sparse(), out=out) is out
        assert out._nnz() == 3, name
        torch.testing.assert_close(out.to_dense().cpu(), getattr(torch, name)(_sparse("cpu").to_dense()))


def _all_of(t: torch.Tensor) -> set[str]:
    parts = [t._indices(), t._values()] if t.layout is torch.sparse_coo else [t.crow_indices(), t.values()]
    return {str(part.device) for part in (t, *parts)}


@pytest.mark.parametrize("to", ["cuda:1", "cpu", "cuda:0"])
def test_results_are_where_they_are_asked_for(to: str) -> None:
    for x in (_sparse("cuda:0"), _sparse("cuda:0").to_sparse_csr()):
        assert _all_of(x.to(to)) == {to}
        assert _all_of(torch.empty_like(x, device=to)) == {to}
        assert torch.equal(x.to(to).to_dense().cpu(), _sparse("cpu").to_dense())


def test_sums_put_one_behind_the_other() -> None:
    x = _sparse()
    for made in (x + x, torch.add(x, x, out=torch.sparse_coo_tensor(size=(2, 3), device="cuda")), x.clone().add_(x)):
        assert made._nnz() == 6
        assert not made.is_coalesced()
        assert torch.equal(made.to_dense(), 2 * x.to_dense())
    difference = torch.sub(x, x, alpha=3)
    assert difference._nnz() == 6
    assert torch.equal(difference.to_dense(), -2 * x.to_dense())


def test_sums_do_not_grow_beyond_what_is_dense() -> None:
    made = _sparse() + _sparse() + _sparse()
    assert made._nnz() == 3
    assert torch.equal(made.to_dense(), 3 * _sparse().to_dense())


def test_a_sum_with_nothing_in_it_is_the_other() -> None:
    none = torch.sparse_coo_tensor(size=(2, 3), device="cuda")
    assert (_sparse() + none)._nnz() == (none + _sparse())._nnz() == 3


def test_sums_have_the_wider_type() -> None:
    made = _sparse() + _sparse().double()
    assert made.dtype == torch.float64
    assert torch.equal(made.to_dense(), 2 * _sparse().double().to_dense())


def test_sums_of_other_shapes_are_refused() -> None:
    with pytest.raises(RuntimeError, match="same size"):
        _sparse() + torch.eye(3, device="cuda").to_sparse()


def test_gradients_of_an_embedding_are_accumulated_as_they_come() -> None:
    words = torch.nn.Embedding(9, 2, sparse=True, device="cuda")
    for text in ([1, 1, 0], [2, 1]):
        words(torch.tensor(text, device="cuda")).sum().backward()
    assert words.weight.grad is not None
    assert words.weight.grad._indices().tolist() == [[1, 1, 0, 2, 1]]
