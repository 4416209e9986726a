"""The uses of CUDA graphs in PyTorch's notes, each compared with the work done without a graph."""

from __future__ import annotations

import copy
from itertools import chain

import pytest
import torch
from harness import VIRTUAL, child, in_child
from torch import nn

pytestmark = [*VIRTUAL.marks, pytest.mark.slow]

N, D_IN, H, D_OUT = 16, 32, 24, 8


def _warm_up(work: object, times: int = 3) -> None:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(times):
            work()
    torch.cuda.current_stream().wait_stream(side)


def _batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [(torch.rand(N, D_IN, device="cuda"), torch.rand(N, D_OUT, device="cuda")) for _ in range(10)]


@child(VIRTUAL)
def test_a_whole_network() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D_IN, H), nn.Dropout(0.2), nn.Linear(H, D_OUT), nn.Dropout(0.1)).cuda()
    other = copy.deepcopy(model)
    ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    x, y = torch.randn(N, D_IN, device="cuda"), torch.randn(N, D_OUT, device="cuda")

    def step(network: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(network(x), y)
        loss.backward()
        optimizer.step()
        return loss

    state = torch.cuda.get_rng_state()
    _warm_up(lambda: step(model, ours, x, y))
    torch.cuda.set_rng_state(state)
    for _ in range(3):
        step(other, theirs, x, y)
    graph = torch.cuda.CUDAGraph()
    ours.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        ours.step()
    batches = _batches()
    torch.cuda.manual_seed(7)
    losses = []
    for data, target in batches:
        x.copy_(data)
        y.copy_(target)
        graph.replay()
        losses.append(loss.item())
    torch.cuda.manual_seed(7)
    assert losses == [step(other, theirs, *batch).item() for batch in batches]
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@child(VIRTUAL)
def test_parts_of_a_network() -> None:
    """The numbers decide which of them runs next."""
    torch.manual_seed(0)
    parts = [nn.Linear(D_IN, H).cuda(), nn.Linear(H, D_OUT).cuda(), nn.Linear(H, D_OUT).cuda()]
    others = copy.deepcopy(parts)
    x, h = torch.randn(N, D_IN, device="cuda"), torch.randn(N, H, device="cuda", requires_grad=True)
    graphed = [torch.cuda.make_graphed_callables(m, (given,)) for m, given in zip(parts, (x, h, h), strict=True)]
    losses: list[list[float]] = []
    batches, taken = _batches(), set()
    for network in (graphed, others):
        optimizer = torch.optim.SGD(chain(*(m.parameters() for m in network)), lr=0.1)
        losses.append([])
        for data, target in batches:
            optimizer.zero_grad(set_to_none=True)
            between = network[0](data)
            way = 1 if between.sum().item() > 0 else 2
            taken.add(way)
            loss = nn.functional.mse_loss(network[way](between), target)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]


@child(VIRTUAL)
def test_scaled_gradients() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D_IN, H), nn.ReLU(), nn.Linear(H, D_OUT)).cuda()
    other = copy.deepcopy(model)
    x, y = torch.randn(N, D_IN, device="cuda"), torch.randn(N, D_OUT, device="cuda")
    ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, other))
    scalers = [torch.amp.GradScaler("cuda", init_scale=256.0) for _ in range(2)]

    def backward(network: nn.Module, scaler: torch.amp.GradScaler, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda"):
            loss = nn.functional.mse_loss(network(x), y)
        scaler.scale(loss).backward()
        return loss

    def step(network: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> None:
        optimizer.zero_grad(set_to_none=True)
        backward(network, scaler, x, y)
        scaler.step(optimizer)
        scaler.update()

    _warm_up(lambda: step(model, ours, scalers[0]))
    for _ in range(3):
        step(other, theirs, scalers[1])
    graph = torch.cuda.CUDAGraph()
    ours.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = backward(model, scalers[0], x, y)
    for data, target in _batches():
        x.copy_(data)
        y.copy_(target)
        graph.replay()
        theirs.zero_grad(set_to_none=True)
        assert backward(other, scalers[1], data, target).item() == loss.item()
        for scaler, optimizer in zip(scalers, (ours, theirs), strict=True):
            scaler.step(optimizer)
            scaler.update()
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@child(VIRTUAL)
def test_several_streams_and_a_shared_pool() -> None:
    side, first, second = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    x, y = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda")
    with torch.cuda.graph(first):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            beside = x * 3
        here = x + 1
        torch.cuda.current_stream().wait_stream(side)
        made = here * beside
    with torch.cuda.graph(second, pool=first.pool()):
        last = made.sum() + y
    for value in (1.0, 2.0):
        x.fill_(value)
        y.fill_(10 * value)
        first.replay()
        second.replay()
        assert last.tolist() == [4 * (value + 1) * value * 3 + 10 * value] * 4


def _spread_graphed(size: int, steps: int) -> list[list[list[float]]]:
    from distributed.ranks import spread

    return spread(_graphed_in_ddp, size, steps)


def _graphed_in_ddp(rank: int, size: int, steps: int) -> list[list[float]]:
    """Losses with a graphed network inside DistributedDataParallel, and without graphs."""
    from torch.nn.parallel import DistributedDataParallel

    losses = []
    for graphs in (True, False):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(D_IN, H), nn.ReLU(), nn.Linear(H, D_OUT)).cuda()
        if graphs:
            model = torch.cuda.make_graphed_callables(model, (torch.randn(N, D_IN, device="cuda"),))
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            network = DistributedDataParallel(model, device_ids=[rank])
        torch.cuda.current_stream().wait_stream(side)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        losses.append([])
        for step in range(steps):
            torch.manual_seed(step * size + rank)
            x, y = torch.randn(N, D_IN).cuda(), torch.randn(N, D_OUT).cuda()
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(network(x), y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
        losses[-1].append(sum(p.double().sum().item() for p in network.parameters()))
    return losses


def test_graphed_callables_inside_ddp() -> None:
    """Gradients are reduced outside of the graphs; every rank ends with the same parameters."""
    ranks = in_child(_spread_graphed, VIRTUAL.with_settings(devices=2), 2, 5, seconds=300)
    for graphed, plain in ranks:
        assert graphed == plain
    assert ranks[0][0][-1] == ranks[1][0][-1]
    assert ranks[0][0][:-1] != ranks[1][0][:-1], "each has data of its own"
