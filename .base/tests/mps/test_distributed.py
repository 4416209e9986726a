"""Two processes train together over gloo, which has no backend for the GPU: collectives go through the host."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conftest import run_python

PROGRAM = """
import json, os, socket, sys
import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

device = "cuda" if torch.cuda.is_available() else "cpu"

def settled(model):
    for parameter in model.parameters():
        values = numpy.random.RandomState(0).randn(*parameter.shape).astype("float32")
        parameter.data.copy_(torch.from_numpy(values))
    return model

def collect(rank):
    there = {"device": device}
    summed = torch.full((2,), rank + 1.0, **there); dist.all_reduce(summed)
    top = torch.tensor([rank], **there); dist.all_reduce(top, op=dist.ReduceOp.MAX)
    sent = torch.tensor([float(rank)], **there); dist.broadcast(sent, src=1)
    rows = [torch.zeros(1, **there) for _ in range(2)]; dist.all_gather(rows, torch.tensor([rank * 2.0], **there))
    whole = torch.zeros(4, **there); dist.all_gather_into_tensor(whole, torch.full((2,), float(rank), **there))
    part = torch.zeros(1, **there); dist.scatter(part, [part + 5, part + 6] if rank == 0 else None, src=0)
    objects = [None, None]; dist.all_gather_object(objects, {"rank": rank, "t": torch.ones(1, **there)})
    # Each sends before it receives: neither may wait in the call.
    other, arrived = 1 - rank, torch.zeros(2, **there)
    work = [dist.isend(torch.full((2,), float(rank), **there), other), dist.irecv(arrived, other)]
    for each in work:
        each.wait()
    later = torch.ones(1, **there); handle = dist.all_reduce(later, async_op=True); handle.wait()
    dist.barrier()
    if device == "cuda":
        dist.barrier(device_ids=[0])
        assert all(t.is_cuda for t in (summed, top, whole, arrived, objects[1 - rank]["t"]))
    return [t.tolist() for t in (summed, top, sent, *rows, whole, part, arrived, later)] + [o["rank"] for o in objects]

def work(rank, port, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = settled(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))).to(device)
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
            optimizer.zero_grad(); loss.backward(); optimizer.step()
            losses.append(loss.item())
    with ddp.no_sync():
        ddp(a.to(device)).sum().backward()
    queue.put([rank, losses, [p.sum().item() for p in model.parameters()], collect(rank)])
    dist.destroy_process_group()

if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(port, queue), nprocs=2)
    print("RESULT " + json.dumps(sorted([queue.get(), queue.get()])))
"""


def _ran(before: str = "", **environment: str) -> Any:
    code = before + PROGRAM
    return json.loads(run_python(code, OMP_NUM_THREADS="1", **environment).stdout.rpartition("RESULT ")[2])


@pytest.mark.parametrize("policy", ["accelerate", "faithful"])
def test_two_processes(emulated: dict[str, str], policy: str) -> None:
    stock = _ran()
    active = f"import torchdevice_cuda; torchdevice_cuda.activate(driver='mps', policy={policy!r})\n"
    ours = _ran(active, TORCHDEVICE_EMULATE_MPS="1")
    for (rank, losses, weights, collected), (other, expected, wanted, right) in zip(ours, stock, strict=True):
        assert rank == other and collected == right
        assert losses == pytest.approx(expected, rel=1e-4) and weights == pytest.approx(wanted, rel=1e-4, abs=1e-4)
