"""Programs of many ranks, of which a rehearsal runs one: each prints JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

GIB = 1 << 30


def measure(call: Any, calls: int = 3) -> float:
    """Return the milliseconds of a call on the GPU's clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):  # DistributedDataParallel waits in its second step
        call()
    torch.cuda.synchronize()
    torch.cuda._sleep(int(60 * 1.5e9))  # a minute of the GPU's, in which this machine issues the calls
    start.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / calls


def make_model(layers: int = 8, width: int = 8192) -> nn.Module:
    with torch.device("cuda"):
        return nn.Sequential(*[nn.Linear(width, width, bias=False, dtype=torch.bfloat16) for _ in range(layers)])


def ddp() -> dict[str, Any]:
    x = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16)
    plain = make_model()
    model = nn.parallel.DistributedDataParallel(make_model(), device_ids=[torch.cuda.current_device()])
    gradients = torch.empty(sum(p.numel() for p in model.parameters()), device="cuda", dtype=torch.bfloat16)
    return {
        "alone": measure(lambda: plain(x).sum().backward()),
        "step": measure(lambda: model(x).sum().backward()),
        "all_reduce": measure(lambda: dist.all_reduce(gradients)),
    }


def beside() -> dict[str, Any]:
    """Products and additions while a collective runs, which is issued before or after them."""
    x = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    large = torch.empty(1 << 31, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()

    def reduce() -> None:
        with torch.cuda.stream(side):
            dist.all_reduce(large, async_op=True)

    def multiply() -> None:
        for _ in range(4):
            x @ x

    def both(*calls: Any) -> float:
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for stream in (torch.cuda.current_stream(), side):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(int(60 * 1.5e9))
        start.record()
        for call in calls:
            call()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end))

    both(multiply, reduce)
    return {"alone": both(multiply), "before": both(reduce, multiply), "after": both(multiply, reduce)}


def fsdp() -> dict[str, Any]:
    from torch.distributed.fsdp import fully_shard

    model = make_model()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(4096, 8192, device="cuda", dtype=torch.bfloat16)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    step_ms, peak = measure(step), torch.cuda.max_memory_allocated()
    torch._C._cuda_clearCublasWorkspaces()
    return {"step": step_ms, "kept": torch.cuda.memory_allocated() - x.nbytes, "peak": peak}


def values() -> dict[str, Any]:
    size, rank = dist.get_world_size(), dist.get_rank()

    def on_gpu(*numbers: float) -> torch.Tensor:
        return torch.tensor(numbers, device="cuda")

    reduced = {name: on_gpu(3.0) for name in ("SUM", "AVG", "MAX", "PRODUCT")}
    for name, tensor in reduced.items():
        dist.all_reduce(tensor, getattr(dist.ReduceOp, name))
    gathered = [torch.zeros(1, device="cuda") for _ in range(size)]
    dist.all_gather(gathered, on_gpu(7.0))
    whole = torch.zeros(2 * size, device="cuda")
    dist.all_gather_into_tensor(whole, on_gpu(1.0, 2.0))
    part = torch.zeros(1, device="cuda")
    dist.reduce_scatter_tensor(part, torch.arange(float(size), device="cuda"))
    received = torch.zeros(size, device="cuda")
    dist.all_to_all_single(received, torch.arange(float(size), device="cuda"))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 100_000})
    sent = [rank]
    dist.broadcast_object_list(sent, src=rank)
    on_cpu = torch.ones(2)
    dist.all_reduce(on_cpu, group=dist.new_group(backend="gloo"))
    half = dist.new_group(list(range(size // 2)))
    of_half = on_gpu(1.0)
    dist.all_reduce(of_half, group=half)
    requests = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, on_gpu(1.0), 1), dist.P2POp(dist.irecv, torch.zeros(1, device="cuda"), 1)]
    )
    for request in requests:
        request.wait()
    loss = torch.ones(1 << 20, device="cuda").sum()
    dist.all_reduce(loss)
    functional = torch.ops._c10d_functional.all_reduce(on_gpu(2.0), "sum", dist.group.WORLD.group_name)
    dist.barrier(device_ids=[torch.cuda.current_device()])
    return {
        **{name: tensor.item() for name, tensor in reduced.items()},
        "gathered": [t.item() for t in gathered][-2:],
        "whole": whole.tolist()[-4:],
        "part": part.item(),
        "received": received.tolist()[:2],
        "objects": [len(objects), objects[-1]["rank"], len(objects[0]["text"])],
        "sent": sent,
        "on_cpu": on_cpu.tolist(),
        "of_half": of_half.item(),
        "functional": torch.ops._c10d_functional.wait_tensor(functional).item(),
        "loss": loss.item(),
        "environment": [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")],
        "devices": torch.cuda.device_count(),
    }


def mesh() -> dict[str, Any]:
    """Shard within nodes, replicate between them."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    found = init_device_mesh("cuda", (dist.get_world_size() // 8, 8), mesh_dim_names=("replicas", "shards"))
    model = make_model(2)
    for layer in model:
        fully_shard(layer, mesh=found)
    model(torch.randn(64, 8192, device="cuda", dtype=torch.bfloat16)).sum().backward()
    return {"kept": sum(p.to_local().numel() for p in model.parameters()), "mesh": list(found.shape)}


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    print(json.dumps(globals()[sys.argv[1]]()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
