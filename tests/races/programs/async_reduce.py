"""Asynchronous collectives of one rank: work.wait() orders the result."""

import tempfile

import torch
import torch.distributed as dist

store = dist.FileStore(tempfile.mktemp(), 1)
dist.init_process_group("nccl", store=store, rank=0, world_size=1)
outs = []
for i in range(3):
    x = torch.full((1 << 12,), float(i + 1), device="cuda") * 2
    out = torch.zeros(1 << 12, device="cuda")
    work = dist.all_gather_into_tensor(out, x, async_op=True)
    work.wait()  # sync
    outs.append(out.sum())
print([o.item() for o in outs])
dist.destroy_process_group()
