"""Trains on two GPUs, saves after every step, and loses a rank in the middle, the first time."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = 6
folder = sys.argv[1]
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(4, 1).cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
losses = []
path = os.path.join(folder, "state.pt")
if os.path.exists(path):
    state = torch.load(path, map_location="cuda")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    losses = state["losses"]
for step in range(len(losses), STEPS):
    torch.manual_seed(step)
    x = torch.randn(2, 8, 4)[rank].cuda()
    if step == 3 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    losses.append(mean.item())
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()
if rank == 0:
    print("losses", *losses, flush=True)
dist.destroy_process_group()
