"""Compressed sparse tensors (CSR, CSC, BSR, BSC) on a GPU on which torch makes none."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import MPS_FAITHFUL, child

import torchdevice_cuda
from torchdevice_cuda.fallback.capabilities import keys, missing
from torchdevice_cuda.report.departures import departures

from .seeing import left, raised

on_mps = child(MPS_FAITHFUL)


def _dense() -> torch.Tensor:
    return torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 3.0, 0.0], [4.0, 5.0, 0.0, 6.0], [0.0, 7.0, 0.0, 0.0]])


def _plain(value: torch.Tensor | None) -> Any:
    """Convert a tensor to values that can be compared."""
    if value is None:
        return None
    value = value.detach().cpu()
    if value.layout is torch.strided:
        return value.tolist()
    held = value.coalesce() if value.layout is torch.sparse_coo else value
    return [value.layout, value.shape, held.values().tolist(), value.to_dense().tolist()]


@child(MPS_FAITHFUL, alone=True)
def test_the_backend_makes_none() -> None:
    """The double refuses as torch does, so that what follows shows what a Mac would."""
    x = torch.eye(2).to_sparse_csr()
    members = x.crow_indices().cuda(), x.col_indices().cuda(), x.values().cuda()
    torchdevice_cuda.deactivate()
    with pytest.raises((NotImplementedError, RuntimeError), match="mps"):
        torch.sparse_csr_tensor(*members)


def _of_members(device: str) -> torch.Tensor:
    members = [0, 1, 2], [1, 0], [3.0, 4.0]
    return torch.sparse_csr_tensor(*(torch.tensor(member, device=device) for member in members))


MADE: dict[str, Callable[[str], torch.Tensor]] = {
    "moved": lambda device: _dense().to_sparse_csr().to(device),
    "csr": lambda device: _dense().to(device).to_sparse_csr(),
    "csc": lambda device: _dense().to(device).to_sparse_csc(),
    "bsr": lambda device: _dense().to(device).to_sparse_bsr((2, 2)),
    "bsc": lambda device: _dense().to(device).to_sparse_bsc((2, 2)),
    "coo": lambda device: _dense().to(device).to_sparse().to_sparse_csr(),
    "members": _of_members,
    "lists": lambda device: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [3.0, 4.0], (2, 2), device=device),
    "zeros": lambda device: torch.zeros(3, 2, layout=torch.sparse_csr, device=device),
}


@on_mps
@pytest.mark.parametrize("made", MADE)
def test_made_and_moved(made: str) -> None:
    there, here = MADE[made]("cuda"), MADE[made]("cpu")
    assert there.is_cuda
    assert str(there.device) == "cuda:0"
    assert there.layout == here.layout
    assert there.values().is_cuda
    assert _plain(there) == _plain(here)
    assert _plain(there.to_dense()) == _plain(here.to_dense())
    assert repr(there).startswith("tensor(")


#: Of a CSR matrix of 4 x 4 and a dense one of 4 x 2.
OPERATORS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "mm": lambda x, y: torch.sparse.mm(x, y),
    "matmul": lambda x, y: x @ y,
    "reduce": lambda x, y: torch.sparse.mm(x, y, "amax"),
    "sampled": lambda x, y: torch.sparse.sampled_addmm(x, y, y.T).to_dense(),
    "scaled": lambda x, y: (x * 2).to_dense(),
    "sum": lambda x, y: x.sum(),
    "mv": lambda x, y: torch.mv(x, y[:, 0]),
    "dense": lambda x, y: x.to_dense(),
    "sin": lambda x, y: torch.sin(x.detach()),
    "t": lambda x, y: x.detach().t(),
    "row": lambda x, y: x.detach()[0],
    "csc": lambda x, y: x.detach().to_sparse_csc(),
    "half": lambda x, y: x.detach().half(),
    "like": lambda x, y: torch.zeros_like(x.detach()),
}


def _outcome(operator: str, device: str) -> list[torch.Tensor | None]:
    """Return the result and the gradients of the two matrices, if it has any."""
    x = _dense().to(device).to_sparse_csr().requires_grad_()
    y = torch.arange(8.0).reshape(4, 2).to(device).requires_grad_()
    made = OPERATORS[operator](x, y)
    if made.layout is torch.strided and made.requires_grad:
        made.sum().backward()
    return [made, x.grad, y.grad]


@on_mps
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_and_gradients(operator: str) -> None:
    there, here = _outcome(operator, "cuda"), _outcome(operator, "cpu")
    assert there[0].is_cuda
    assert here[0].is_cpu
    assert [_plain(value) for value in there] == [_plain(value) for value in here]


def _csr() -> torch.Tensor:
    return _dense().cuda().to_sparse_csr()


@on_mps
def test_saved() -> None:
    file = io.BytesIO()
    torch.save(_csr(), file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.is_cuda
    assert _plain(loaded) == _plain(_dense().to_sparse_csr())


@on_mps
def test_copied() -> None:
    x = _csr()
    copied = copy.deepcopy(x)
    x.values().zero_()
    assert _plain(copied) == _plain(_dense().to_sparse_csr())


@on_mps
def test_converted() -> None:
    assert _csr().double().dtype is torch.float32


@on_mps
def test_changed_in_place() -> None:
    there, here = _csr(), _dense().to_sparse_csr()
    for x in (there, here):
        x.values().mul_(2)
        x.neg_()
        x.resize_(5, 4)
    assert _plain(there) == _plain(here)


@on_mps
def test_fallbacks_are_counted() -> None:
    departures.clear()
    _csr().neg_()
    assert "aten::neg_" in [name for _, name, _, _ in left()]


@on_mps
@pytest.mark.parametrize("method", ["stride", "is_contiguous", "ccol_indices"])
def test_unsupported_attributes(method: str) -> None:
    there, here = raised(getattr(_csr(), method)), raised(getattr(_dense().to_sparse_csr(), method))
    assert there == here
    assert here is not None


COO: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "hspmm": lambda x, y: _plain(torch.hspmm(x, y)),
    "csc": lambda x, y: _plain(x.to_sparse_csc()),
    "resized": lambda x, y: _plain(torch.empty_like(x).resize_as_sparse_(x))[:2],
}


@on_mps
@pytest.mark.parametrize("operator", COO)
def test_coo_operators_the_gpu_lacks(operator: str) -> None:
    x, y = _dense(), torch.arange(8.0).reshape(4, 2)
    assert COO[operator](x.cuda().to_sparse(), y.cuda()) == COO[operator](x.to_sparse(), y)


@on_mps
def test_no_operator_of_any_layout_is_missing() -> None:
    left_out = {key: list(missing(key)) for key in keys()}
    assert left_out
    assert left_out == dict.fromkeys(left_out, [])


@child(MPS_FAITHFUL.with_settings(fallback="error"))
def test_error_when_nothing_may_leave() -> None:
    x = torch.eye(2).to_sparse_csr().cuda()
    with pytest.raises(NotImplementedError, match="aten::sin would leave the accelerator"):
        x.sin()


def _that_do_not_fit(device: str) -> torch.Tensor:
    members = torch.tensor([0, 3, 2], device=device), torch.tensor([0, 1], device=device), torch.ones(2, device=device)
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.sparse_csr_tensor(*members, (2, 2))


@child(MPS_FAITHFUL, alone=True)
def test_members_that_do_not_fit() -> None:
    here = raised(lambda: _that_do_not_fit("cpu"))
    assert here is not None
    assert here[0] == "RuntimeError"
    assert raised(lambda: _that_do_not_fit("cuda")) == here


@on_mps
@pytest.mark.xfail(strict=True, reason="the check is part of what torch refuses, which is asked only once")
def test_members_that_do_not_fit_after_others_that_did() -> None:
    _csr()
    assert raised(lambda: _that_do_not_fit("cuda")) == raised(lambda: _that_do_not_fit("cpu"))


@child(MPS_FAITHFUL)
def test_one_can_be_assigned_to_another() -> None:
    one, other = (torch.eye(3, device="cuda").mul(factor).to_sparse_csr() for factor in (1, 2))
    one.data = other
    assert one.to_dense().tolist() == torch.eye(3).mul(2).tolist()
    other.values().fill_(5.0)
    assert one.to_dense().tolist() == torch.eye(3).mul(5).tolist()
