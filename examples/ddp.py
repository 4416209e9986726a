"""Data-parallel training on two GPUs over NCCL: two ranks, a GPU each, the same weights in the end.

python -m torchdevice_cuda --devices 2 -m torch.distributed.run --nproc-per-node 2 examples/ddp.py
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(rank)  # different weights, which DDP makes the same, and different data
    model = DistributedDataParallel(nn.Linear(8, 1).cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(50):
        x = torch.randn(64, 8, device="cuda")
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    everyone = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, weights)
    print(f"rank {rank} on cuda:{torch.cuda.current_device()}: loss {loss.item():.5f}", flush=True)
    assert all(torch.equal(weights, other) for other in everyone)
    assert loss.item() < 0.1
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
