"""A communication hook of DDP that scales buckets on a side stream."""

import tempfile

import torch
import torch.distributed as dist

dist.init_process_group("nccl", store=dist.FileStore(tempfile.mktemp(), 1), rank=0, world_size=1)
model = torch.nn.Linear(64, 64, bias=False).cuda()
torch.nn.init.constant_(model.weight, 0.125)
ddp = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
side = torch.cuda.Stream()


def hook(state, bucket):
    buffer = bucket.buffer()
    side.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(side):
        buffer.mul_(0.5)
    torch.cuda.current_stream().wait_stream(side)  # sync
    work = dist.all_reduce(buffer, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


ddp.register_comm_hook(None, hook)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
for _ in range(3):
    ddp(torch.ones(8, 64, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(round(model.weight.sum().item(), 4))
dist.destroy_process_group()
