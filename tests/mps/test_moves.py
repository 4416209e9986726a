"""Moves between CUDA and the CPU copy, also where both are the GPU; moves to where a tensor is do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import pytest
import torch
from harness import BOTH_POLICIES, MPS, MPS_FAITHFUL, child
from torch import nn

everywhere = child(*BOTH_POLICIES)


@everywhere
def test_a_snapshot_of_the_weights() -> None:
    net = nn.Linear(2, 2, bias=False).cuda()
    nn.init.ones_(net.weight)
    snapshot = {name: value.cpu() for name, value in net.state_dict().items()}
    net.weight.data.zero_()
    assert snapshot["weight"].tolist() == [[1, 1], [1, 1]]


@everywhere
def test_a_buffer_that_is_used_again() -> None:
    buffer, kept = torch.zeros(2), []
    for step in range(3):
        buffer.fill_(step)
        kept.append(buffer.cuda())
    assert [each.tolist() for each in kept] == [[0, 0], [1, 1], [2, 2]]


@everywhere
def test_a_row_that_is_changed_later() -> None:
    rows = torch.zeros(2, 2)
    row = rows[0].to("cuda:0", non_blocking=True)
    rows += 1
    assert row.tolist() == [0, 0]


@everywhere
def test_away_from_the_gpu() -> None:
    home = torch.ones(2, device="cuda")
    away = home.to("cpu")
    home.zero_()
    assert away.tolist() == [1, 1]


@everywhere
def test_there_and_back() -> None:
    away = torch.ones(2, device="cuda").to("cpu")
    again = away.cuda()
    away.zero_()
    assert again.tolist() == [1, 1]


@everywhere
def test_from_a_cpu_that_was_asked_for() -> None:
    named = torch.zeros(2, device="cpu")
    other = named.to(torch.device("cuda"), torch.float32, False)
    named += 1
    assert other.tolist() == [0, 0]


@everywhere
def test_twice_to_the_cpu() -> None:
    assert torch.ones(2, device="cuda").cpu().cpu().tolist() == [1, 1]


#: From where the tensor is asked for, to where it is.
NOWHERE: dict[str, tuple[str | None, Callable[[torch.Tensor], torch.Tensor]]] = {
    "cpu": (None, lambda x: x.cpu()),
    "to cpu": (None, lambda x: x.to("cpu")),
    "cuda": ("cuda", lambda x: x.cuda()),
    "to cuda:0": ("cuda", lambda x: x.to("cuda:0")),
    "to mps": ("cuda", lambda x: x.to("mps")),
}


@everywhere
@pytest.mark.parametrize("move", NOWHERE)
def test_a_move_to_where_it_is(move: str) -> None:
    device, function = NOWHERE[move]
    x = torch.ones(2, device=device)
    assert function(x) is x


@everywhere
def test_a_leaf_stays_a_leaf() -> None:
    leaf = torch.ones(2, device="cuda", requires_grad=True)
    assert leaf.cuda() is leaf


@everywhere
def test_parameters_stay_the_same_objects() -> None:
    model = nn.Linear(2, 2)
    weight = model.weight
    model.cuda()
    assert model.weight is weight


@everywhere
def test_modules_of_float64() -> None:
    model = nn.Linear(2, 2).double().to("cuda")
    out = model(torch.from_numpy(numpy.ones((1, 2))).to("cuda"))
    assert out.is_cuda
    assert out.dtype is torch.float32
    assert out.shape == (1, 2)


@child(MPS, as_in=MPS_FAITHFUL)
@pytest.mark.parametrize("scramble", [True, False])
def test_quasirandom_numbers_meet_the_rest(scramble: bool) -> list[list[float]]:
    return (torch.quasirandom.SobolEngine(2, scramble=scramble, seed=1).draw(4) + torch.zeros(4, 2)).tolist()


def _odd(dtype: torch.dtype) -> torch.Tensor:
    """Memory of the CPU that begins between two words of four bytes."""
    made = torch.zeros(9, dtype=dtype)[1:]
    assert made.data_ptr() % 4
    return made


@child(MPS_FAITHFUL)
@pytest.mark.parametrize("dtype", ["uint8", "bool", "float16"])
def test_copies_to_odd_addresses(dtype: str) -> None:
    source, to = torch.ones(8, device="cuda").to(getattr(torch, dtype)), _odd(getattr(torch, dtype))
    with pytest.raises(RuntimeError, match="Unaligned blit request"):
        torch._C.TensorBase.copy_(to, source)  # as a Mac
    assert to.copy_(source) is to
    assert to.tolist() == [1] * 8
    to[::2].copy_(torch.zeros(4, device="cuda"))
    assert to.tolist() == [0, 1] * 4


@child(MPS_FAITHFUL)
def test_other_errors_of_copies_stay() -> None:
    with pytest.raises(RuntimeError, match="size"):
        torch.zeros(3).copy_(torch.ones(2, device="cuda"))
