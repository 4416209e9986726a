"""Read a pinned buffer through a NumPy array made earlier."""

import torch

host = torch.zeros(1 << 16).pin_memory()
array = host.numpy()
x = torch.ones(1 << 16, device="cuda")
done = torch.cuda.Event()
for step in range(3):
    x.mul_(3)
    host.copy_(x, non_blocking=True)
    done.record()
    done.synchronize()  # sync
    print(step, float(array[0]), float(array[-1]))
    torch.cuda.synchronize()
