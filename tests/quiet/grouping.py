import torch
import torch.distributed as dist

dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
dist.broadcast(x, 0)
dist.barrier()
assert x.tolist() == [1, 1]
dist.destroy_process_group()
print("done")
