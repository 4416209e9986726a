"""Run one of several ranks: rank 0 ends as the argument says, the others wait for a line and call a collective."""

import datetime
import sys

import torch
import torch.distributed as dist

how = sys.argv[1]
dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=120))
x = torch.ones(1000, device="cuda")
dist.all_reduce(x)
print("ready", flush=True)
if dist.get_rank() > 0:
    sys.stdin.readline()
    try:
        dist.all_reduce(x)
    except RuntimeError as error:
        print("told", str(error), flush=True)
elif how == "in a collective":
    dist.all_reduce(x)
elif how == "in a reduction of another type":
    dist.all_reduce(x.to(torch.float8_e5m2))
elif how == "while it receives":
    dist.recv(x, 1)
elif how == "while it synchronizes":
    dist.all_reduce(x, async_op=True)
    torch.cuda.synchronize()
elif how == "with pending work":
    dist.all_reduce(x, async_op=True)
elif how == "with a pending future":
    dist.all_reduce(x, async_op=True).get_future().then(lambda future: future.value())
elif how == "with a pending receive":
    dist.irecv(x, 1)
    dist.isend(x, 1)
