"""A memory pool of the program's own, whose blocks are used on two streams."""

import torch

pool = torch.cuda.MemPool()
side = torch.cuda.Stream()
sums = []
with torch.cuda.use_mem_pool(pool):
    for i in range(4):
        x = torch.full((1 << 16,), float(i), device="cuda")
        side.wait_stream(torch.cuda.current_stream())  # sync
        with torch.cuda.stream(side):
            sums.append(x.sum())
        torch.cuda.current_stream().wait_stream(side)  # sync
        del x
torch.cuda.synchronize()
print([s.item() for s in sums])
