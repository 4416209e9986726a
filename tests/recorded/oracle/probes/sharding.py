"""Models and tensors that a group of processes shares."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
import torch.distributed as dist

from recorded.oracle.probing import numbers, probe, raises
from recorded.oracle.scenes import group, one


@probe()
def data_parallel() -> Any:
    group()
    net = torch.nn.Linear(2, 2, device="cuda")
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    model = torch.nn.parallel.DistributedDataParallel(net, device_ids=[0])
    model(torch.ones(1, 2, device="cuda")).sum().backward()
    out = [numbers(p.grad) for p in model.parameters()]
    with model.no_sync():
        model(torch.ones(1, 2, device="cuda")).sum().backward()
    cpu = torch.nn.Linear(2, 2)
    return [
        out,
        [numbers(p.grad) for p in model.parameters()],
        model.device_type,
        model.device_ids,
        str(model.output_device),
        raises(lambda: torch.nn.parallel.DistributedDataParallel(cpu, device_ids=[0])),
        raises(lambda: torch.nn.parallel.DistributedDataParallel(cpu)),
        raises(lambda: torch.nn.parallel.DistributedDataParallel(net, device_ids=[0, 1])),
        raises(lambda: torch.nn.parallel.DistributedDataParallel(torch.nn.ReLU())),
        raises(lambda: model(torch.ones(1, 2))),
        list(model.state_dict())[0],
        raises(lambda: model.module.bogus),
    ]


@probe()
def fully_sharded() -> Any:
    from torch.distributed.fsdp import fully_shard

    group()
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)).cuda()
    with torch.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    fully_shard(net[0])
    fully_shard(net)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(1, 2, device="cuda")).sum().backward()
    opt.step()
    p = next(net.parameters())
    return [
        type(p).__name__,
        str(p.device),
        str(p.placements),
        numbers(p.to_local()),
        type(net).__name__,
        str(p.device_mesh.device_type),
    ]


@probe()
def device_meshes() -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    group()
    mesh = init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
    d = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    return [
        mesh.device_type,
        mesh.ndim,
        mesh.size(),
        mesh.get_rank(),
        mesh.mesh_dim_names,
        str(d.device),
        str(d.to_local().device),
        str((d + 1).placements),
        numbers(d.full_tensor()),
        str(d.redistribute(mesh, [Replicate()]).placements),
        raises(lambda: init_device_mesh("cuda", (2,))),
        raises(lambda: init_device_mesh("cuda:0", (1,))),
        raises(lambda: init_device_mesh("bogus", (1,))),
        raises(lambda: d + torch.ones(4, device="cuda")),
    ]


@probe()
def functional_collectives() -> Any:
    import torch.distributed._functional_collectives as fc

    group()
    x = one()
    y = fc.all_reduce(x, "sum", dist.group.WORLD)
    z = fc.all_gather_tensor(x, 0, dist.group.WORLD)
    return [
        type(y).__name__,
        numbers(y + 0),
        numbers(z + 0),
        numbers(x),
        numbers(fc.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD) + 0),
        raises(lambda: fc.all_reduce(x, "bogus", dist.group.WORLD)),
    ]


@probe()
def autograd_of_collectives() -> Any:
    import torch.distributed.nn as dnn

    group()
    x = one().requires_grad_()
    y = dnn.all_reduce(x * 2)
    y.sum().backward()
    (z,) = dnn.all_gather(x)
    z.prod().backward()
    return [numbers(y), numbers(x.grad)]


@probe()
def parallel_layers() -> Any:
    group()
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).cuda()
    sync = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)
    y = sync(torch.tensor([[1.0, 2.0], [3.0, 5.0]], device="cuda"))
    y.sum().backward()
    return [
        [type(m).__name__ for m in sync],
        list(y.shape),
        raises(lambda: sync.cpu()(torch.ones(2, 2))),
        raises(lambda: torch.nn.SyncBatchNorm(2, device="cuda")(torch.ones(2, 2))),
    ]


@probe()
def saved_across_a_group() -> Any:
    import torch.distributed.checkpoint as dcp

    group("cpu:gloo,cuda:nccl")
    folder = tempfile.mkdtemp()
    state = {"w": one(), "n": 3}
    dcp.save(state, checkpoint_id=folder)
    back = {"w": torch.zeros(2, device="cuda"), "n": 0}
    dcp.load(back, checkpoint_id=folder)
    return [back["w"], back["n"], sorted(os.listdir(folder))]
