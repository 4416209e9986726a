"""Two processes train together over gloo, which has no backend for the GPU: collectives go through the host."""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from harness import MPS, MPS_FAITHFUL, STOCK, VIRTUAL, in_child
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def _device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


def _settled(model: nn.Module) -> nn.Module:
    """Return the model with weights that depend on nothing but their shapes."""
    for parameter in model.parameters():
        values = numpy.random.RandomState(0).randn(*parameter.shape).astype("float32")
        parameter.data.copy_(torch.from_numpy(values))
    return model


def _reduced(rank: int, there: dict[str, str]) -> dict[str, torch.Tensor]:
    summed, top = torch.full((2,), rank + 1.0, **there), torch.tensor([rank], **there)
    dist.all_reduce(summed)
    dist.all_reduce(top, op=dist.ReduceOp.MAX)
    later = torch.ones(1, **there)
    dist.all_reduce(later, async_op=True).wait()
    return {"all_reduce": summed, "all_reduce, max": top, "all_reduce, later": later}


def _spread(rank: int, there: dict[str, str]) -> dict[str, torch.Tensor]:
    sent, part = torch.tensor([float(rank)], **there), torch.zeros(1, **there)
    dist.broadcast(sent, src=1)
    dist.scatter(part, [part + 5, part + 6] if rank == 0 else None, src=0)
    return {"broadcast": sent, "scatter": part}


def _gathered(rank: int, there: dict[str, str]) -> dict[str, torch.Tensor]:
    rows, whole = [torch.zeros(1, **there) for _ in range(2)], torch.zeros(4, **there)
    dist.all_gather(rows, torch.tensor([rank * 2.0], **there))
    dist.all_gather_into_tensor(whole, torch.full((2,), float(rank), **there))
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": rank, "t": torch.full((1,), float(rank), **there)})
    assert [held["rank"] for held in objects] == [0, 1]
    return {
        "all_gather": torch.cat(rows),
        "all_gather_into_tensor": whole,
        "all_gather_object": objects[1 - rank]["t"],
    }


def _exchanged(rank: int, there: dict[str, str]) -> dict[str, torch.Tensor]:
    """Each sends before it receives: neither may wait in the call."""
    other, arrived = 1 - rank, torch.zeros(2, **there)
    work = [dist.isend(torch.full((2,), float(rank), **there), other), dist.irecv(arrived, other)]
    for each in work:
        each.wait()
    return {"isend and irecv": arrived}


def _collect(rank: int) -> dict[str, list[float]]:
    """Return the result of each collective, wherever this program's tensors are."""
    there = {"device": _device()}
    given: dict[str, torch.Tensor] = {}
    for collect in (_reduced, _spread, _gathered, _exchanged):
        given |= collect(rank, there)
    dist.barrier()
    if there["device"] == "cuda":
        dist.barrier(device_ids=[0])
    assert {name for name, t in given.items() if t.device.type != there["device"]} == set()
    return {name: t.tolist() for name, t in given.items()}


def _train(rank: int) -> tuple[list[float], list[float]]:
    """Return the losses, and the sums of the weights at the end."""
    device = _device()
    model = _settled(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))).to(device)
    ddp = DistributedDataParallel(model, device_ids=[0] if device == "cuda" else None)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
    x = torch.from_numpy(numpy.random.RandomState(1).randn(32, 4).astype("float32"))
    held = TensorDataset(x, x.sum(1, keepdim=True))
    sampler = DistributedSampler(held, num_replicas=2, rank=rank, seed=3)
    losses = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for a, b in DataLoader(held, batch_size=8, sampler=sampler, pin_memory=device == "cuda"):
            loss = nn.functional.mse_loss(ddp(a.to(device, non_blocking=True)), b.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    with ddp.no_sync():
        ddp(a.to(device)).sum().backward()
    return losses, [p.sum().item() for p in model.parameters()]


def _normalised(rank: int) -> list[float]:
    """Run SyncBatchNorm on half a batch; return its gradients and statistics; on the CPU, those of the whole batch."""
    device, batch = _device(), torch.arange(48.0).reshape(4, 3, 4).sin()
    mine = slice(2 * rank, 2 * rank + 2)
    x = (batch[mine] if device == "cuda" else batch).to(device).detach().requires_grad_()
    norm = (nn.SyncBatchNorm if device == "cuda" else nn.BatchNorm1d)(3).to(device)
    made = norm(x)
    (made**3).sum().backward()
    parts = [made, x.grad] if device == "cuda" else [made[mine], x.grad[mine]]
    weight = norm.weight.grad.clone()
    if device == "cuda":
        dist.all_reduce(weight)
    return torch.cat([part.flatten() for part in (*parts, weight, norm.running_mean, norm.running_var)]).tolist()


def work(rank: int, port: int, queue: Any) -> None:
    """Run one of the two processes."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    losses, weights = _train(rank)
    queue.put(
        {
            "rank": rank,
            "losses": losses,
            "weights": weights,
            "collected": _collect(rank),
            "normalised": _normalised(rank),
        }
    )
    dist.destroy_process_group()


def both() -> list[dict[str, Any]]:
    """Return the reports of the two ranks in order."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(port, queue), nprocs=2)
    return sorted([queue.get(), queue.get()], key=lambda one: one["rank"])


@pytest.fixture(scope="module")
def stock() -> list[dict[str, Any]]:
    return in_child(both, STOCK.when("after"))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(place, marks=place.marks, id=str(place))
        for place in (MPS.rarely(), MPS_FAITHFUL.rarely(), VIRTUAL.rarely())
    ],
)
def ours(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    return in_child(both, request.param)


@pytest.mark.parametrize("rank", [0, 1])
def test_losses(ours: list[dict[str, Any]], stock: list[dict[str, Any]], rank: int) -> None:
    assert ours[rank]["losses"] == pytest.approx(stock[rank]["losses"], rel=1e-4)


@pytest.mark.parametrize("rank", [0, 1])
def test_weights(ours: list[dict[str, Any]], stock: list[dict[str, Any]], rank: int) -> None:
    assert ours[rank]["weights"] == pytest.approx(stock[rank]["weights"], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("rank", [0, 1])
def test_collectives(ours: list[dict[str, Any]], stock: list[dict[str, Any]], rank: int) -> None:
    assert ours[rank]["collected"] == stock[rank]["collected"]


@pytest.mark.parametrize("rank", [0, 1])
def test_batches_are_normalised_together(ours: list[dict[str, Any]], stock: list[dict[str, Any]], rank: int) -> None:
    assert ours[rank]["normalised"] == pytest.approx(stock[rank]["normalised"], rel=1e-4, abs=1e-4)
