"""The input of an asynchronous collective is a buffer that is used again."""

import tempfile

import torch
import torch.distributed as dist

store = dist.FileStore(tempfile.mktemp(), 1)
dist.init_process_group("nccl", store=store, rank=0, world_size=1)
buffer = torch.empty(1 << 12, device="cuda")
outs = []
for i in range(3):
    buffer.fill_(float(i + 1))
    out = torch.zeros(1 << 12, device="cuda")
    work = dist.all_gather_into_tensor(out, buffer, async_op=True)
    outs.append((out, work))
    work.wait()  # sync
for _, work in outs:
    work.wait()
print([out.sum().item() for out, _ in outs])
dist.destroy_process_group()
