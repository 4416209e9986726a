"""Train one model in one process and in several, by each of torch's parallel methods."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel


def model() -> nn.Sequential:
    torch.manual_seed(0)
    sizes = (8, 16, 16, 16)
    layers = [layer for one in range(3) for layer in (nn.Linear(sizes[one], sizes[one + 1]), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(16, 4))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(step + 1)
    return torch.randn(8, 8), torch.randn(8, 4)


def alone(steps: int) -> list[float]:
    """Return the losses in one process, on the CPU."""
    return _train(model(), steps, lambda x, y: (x, y), lambda loss: loss)


def _train(
    module: nn.Module,
    steps: int,
    share: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
    mean: Callable[[torch.Tensor], torch.Tensor],
    optimizer: torch.optim.Optimizer | None = None,
) -> list[float]:
    optimizer = optimizer or torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        x, y = share(*batch(step))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(mean(loss.detach().clone()).item())
    return losses


def _shared(module: nn.Module, rank: int, size: int, steps: int, **more: Any) -> list[float]:
    """Train with a part of each batch in each rank."""

    def share(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.chunk(size)[rank].cuda(), y.chunk(size)[rank].cuda()

    def mean(loss: torch.Tensor) -> torch.Tensor:
        dist.all_reduce(loss, op=dist.ReduceOp.AVG)
        return loss

    return _train(module, steps, share, mean, **more)


def ddp(rank: int, size: int, steps: int) -> list[float]:
    return _shared(DistributedDataParallel(model().cuda(), device_ids=[torch.cuda.current_device()]), rank, size, steps)


def ddp_in_views(rank: int, size: int, steps: int) -> list[float]:
    module = DistributedDataParallel(
        model().cuda(), static_graph=True, gradient_as_bucket_view=True, bucket_cap_mb=0.0001
    )
    return _shared(module, rank, size, steps)


def ddp_that_finds_unused(rank: int, size: int, steps: int) -> list[float]:
    module = DistributedDataParallel(model().cuda(), find_unused_parameters=True)
    with module.no_sync():
        module(torch.ones(2, 8, device="cuda")).sum().backward()
    return _shared(module, rank, size, steps)


def ddp_with_a_hook(rank: int, size: int, steps: int) -> list[float]:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
        module = DistributedDataParallel(model().cuda())
        module.register_comm_hook(None, hook)
        _shared(module, rank, size, 1)
    module = DistributedDataParallel(model().cuda())
    module.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    _shared(module, rank, size, 4)
    module = DistributedDataParallel(model().cuda())
    module.register_comm_hook(None, default_hooks.allreduce_hook)
    return _shared(module, rank, size, steps)


def zero(rank: int, size: int, steps: int) -> list[float]:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    module = DistributedDataParallel(model().cuda())
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.SGD, lr=0.1)
    return _shared(module, rank, size, steps, optimizer=optimizer)


def fsdp(rank: int, size: int, steps: int) -> list[float]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    module = FullyShardedDataParallel(model().cuda(), device_id=torch.cuda.current_device())
    return _shared(module, rank, size, steps)


def _fully_sharded() -> nn.Module:
    from torch.distributed.fsdp import fully_shard

    made = model().cuda()
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(made)


def fsdp2(rank: int, size: int, steps: int) -> list[float]:
    return _shared(_fully_sharded(), rank, size, steps)


def fsdp2_loaded(rank: int, size: int, steps: int) -> list[float]:
    """Saved, and loaded into another."""
    import torch.distributed.checkpoint as dcp

    module = _fully_sharded()
    folder: list[Any] = [tempfile.mkdtemp()]
    dist.broadcast_object_list(folder, 0)
    dcp.save({"model": module.state_dict()}, checkpoint_id=folder[0])
    other = _fully_sharded()
    _shared(other, rank, size, 1)
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=folder[0])
    other.load_state_dict(state["model"])
    return _shared(other, rank, size, steps)


def tensor(rank: int, size: int, steps: int) -> list[float]:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    module = model().cuda()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(), "6": RowwiseParallel()}
    parallelize_module(module, init_device_mesh("cuda", (size,)), plan)
    return _train(module, steps, lambda x, y: (x.cuda(), y.cuda()), lambda loss: loss)


def pipeline(rank: int, size: int, steps: int) -> list[float]:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    whole = model()
    bounds = {2: (0, 4, 7), 4: (0, 2, 4, 6, 7)}[size]
    module = whole[bounds[rank] : bounds[rank + 1]].cuda()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    stage = PipelineStage(module, rank, size, torch.device("cuda", torch.cuda.current_device()))
    schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.mse_loss)
    last, found = size - 1, []
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        given = (x.cuda(),) if rank == 0 else ()
        schedule.step(*given, **({"target": y.cuda(), "losses": losses} if rank == last else {}))
        optimizer.step()
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros((), device="cuda")
        dist.broadcast(loss, last)
        found.append(loss.item())
    return found


def trained(rank: int, size: int, ways: list[str], steps: int) -> dict[str, list[float]]:
    """The losses of each way."""
    return {way: globals()[way](rank, size, steps) for way in ways}
