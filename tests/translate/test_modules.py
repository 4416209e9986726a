"""Modules, optimizers and what trains them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import CPU, child
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from .asking import HOST

pytestmark = child(CPU, CPU.when("after"))

MOVES: dict[str, Callable[[nn.Module], nn.Module]] = {
    "cuda()": lambda module: module.cuda(),
    "cuda(0)": lambda module: module.cuda(0),
    "to('cuda')": lambda module: module.to("cuda"),
    "to(device='cuda:0')": lambda module: module.to(device="cuda:0"),
    "to(device)": lambda module: module.to(torch.device("cuda")),
    "to(0)": lambda module: module.to(0),
    "to('cuda', dtype, True)": lambda module: module.to("cuda", torch.float32, True),
    "cpu()": lambda module: module.cpu(),
    "to('cpu')": lambda module: module.to("cpu"),
    "to(tensor)": lambda module: module.to(torch.ones(1)),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_module_moves_in_place(move: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    parameter = model[0].weight
    assert MOVES[move](model) is model
    assert model[0].weight is parameter
    assert parameter.is_leaf
    assert model(torch.ones(2, 2, device="cuda")).shape == (2, 2)


def test_a_module_is_converted() -> None:
    assert nn.Linear(2, 2).to(torch.float16).weight.dtype is torch.float16
    assert nn.Linear(2, 2).to("cuda", torch.float64).weight.dtype is torch.float64
    assert nn.Linear(2, 2).to("cuda", dtype=torch.float64, non_blocking=True).weight.dtype is torch.float64
    assert nn.Conv2d(1, 1, 1).to(memory_format=torch.channels_last).weight.shape == (1, 1, 1, 1)


def test_a_module_is_made_on_cuda() -> None:
    assert nn.Linear(2, 2, device="cuda").weight.device == HOST


def test_a_module_without_data_is_given_some() -> None:
    empty = nn.Linear(2, 2, device="meta").to_empty(device="cuda")
    assert empty.weight.device == HOST
    assert empty.to_empty(device=0).weight.shape == (2, 2)


def test_a_module_goes_nowhere_else() -> None:
    with pytest.raises(RuntimeError):
        nn.Linear(1, 1).to("cuda:7")
    with pytest.raises(TypeError):
        nn.Linear(1, 1).to(torch.int64)


def test_synchronised_batch_norm_moves() -> None:
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(2))).cuda()
    assert type(converted[0]) is nn.SyncBatchNorm


def _losses(device: Any) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).to(device)
    x, y = torch.ones(4, 4).to(device), torch.zeros(4, 1, device=device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_training_equals_the_cpus() -> None:
    assert _losses("cuda") == _losses("cpu")
    assert _losses(torch.device("cuda", 0)) == _losses("cpu")


# -------------------------------------------------------------------- packed sequences
PACKED: dict[str, Callable[[PackedSequence], PackedSequence]] = {
    "cuda()": lambda packed: packed.cuda(),
    "cuda(0)": lambda packed: packed.cuda(0),
    "to('cuda')": lambda packed: packed.to("cuda"),
    "to(device)": lambda packed: packed.to(torch.device("cuda:0")),
    "to(dtype)": lambda packed: packed.to(torch.float64),
    "to('cuda', dtype)": lambda packed: packed.to("cuda", dtype=torch.float64),
    "cuda().cpu()": lambda packed: packed.cuda().cpu(),
    "pin_memory()": lambda packed: packed.pin_memory(),
}


@pytest.mark.parametrize("move", PACKED)
def test_a_packed_sequence_stays_one(move: str) -> None:
    packed = pack_padded_sequence(torch.ones(3, 2, 4), torch.tensor([3, 2]))
    moved = PACKED[move](packed)
    assert type(moved) is PackedSequence
    assert moved.batch_sizes.tolist() == packed.batch_sizes.tolist()
    assert pad_packed_sequence(moved)[1].tolist() == [3, 2]


def test_recurrent_layers_take_packed_sequences() -> None:
    packed = pack_padded_sequence(torch.ones(3, 2, 4), torch.tensor([3, 2]))
    output, _ = nn.LSTM(4, 5).cuda()(packed.cuda())
    assert type(output) is PackedSequence


# --------------------------------------------------------------------- around training
def test_data_parallel() -> None:
    model = nn.DataParallel(nn.Linear(2, 2).cuda())
    model(torch.ones(4, 2, device="cuda")).sum().backward()
    assert model.module.weight.grad is not None


def test_data_parallel_on_a_list_of_devices() -> None:
    assert nn.DataParallel(nn.Linear(2, 2).cuda(), [0])(torch.ones(1, 2)).shape == (1, 2)


OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, bool]]] = {
    "Adam fused": (torch.optim.Adam, {"fused": True}),
    "AdamW fused": (torch.optim.AdamW, {"fused": True}),
    "SGD fused": (torch.optim.SGD, {"fused": True}),
    "Adam capturable": (torch.optim.Adam, {"capturable": True}),
    "Adam foreach": (torch.optim.Adam, {"foreach": True}),
    "RMSprop capturable": (torch.optim.RMSprop, {"capturable": True}),
    "NAdam capturable": (torch.optim.NAdam, {"capturable": True}),
}


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_options_of_optimizers(case: str) -> None:
    make, options = OPTIMIZERS[case]
    weight = nn.Parameter(torch.ones(3, device="cuda"))
    optimizer = make([weight], lr=0.1, **options)
    for _ in range(3):
        optimizer.zero_grad()
        weight.square().sum().backward()
        optimizer.step()
    assert weight.detach().max() < 1
    make([weight], lr=0.1, **options).load_state_dict(optimizer.state_dict())


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointed_layers(reentrant: bool) -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).cuda()
    x = torch.ones(2, 4, device="cuda", requires_grad=True)
    checkpoint(layer, x, use_reentrant=reentrant, preserve_rng_state=True).sum().backward()
    assert x.grad is not None


def test_profiler() -> None:
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as run:
        torch.ones(4, 4, device="cuda") @ torch.ones(4, 4, device="cuda")
    assert "aten::mm" in run.key_averages().table(sort_by="cpu_time_total")
