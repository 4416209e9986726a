"""torchrun: DistributedDataParallel over nccl."""

import os

import torch
import torch.distributed as dist
from _training import BATCH, EPOCHS, make_data, make_model, optimizer_of, report
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

if __name__ == "__main__":
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    world = dist.get_world_size()
    model = DistributedDataParallel(make_model().cuda(), device_ids=[local])
    optimizer = optimizer_of(model)
    data = make_data()
    loader = DataLoader(data, batch_size=BATCH // world, sampler=DistributedSampler(data, shuffle=False))
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            mse_loss(model(x.cuda()), y.cuda()).backward()
            optimizer.step()
    devices = [None] * world
    dist.all_gather_object(devices, str(next(model.parameters()).device))
    if dist.get_rank() == 0:
        report(model.parameters(), devices=devices, backend=dist.get_backend())
    dist.destroy_process_group()
