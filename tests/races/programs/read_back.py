"""Copy results to pinned memory without blocking, and read them on the host."""

import torch

x = torch.arange(1 << 18, dtype=torch.float32, device="cuda")
host = torch.zeros(1 << 18).pin_memory()
for step in range(3):
    x.add_(1)
    host.copy_(x, non_blocking=True)
    torch.cuda.synchronize()  # sync
    print(step, host.sum().item())
    torch.cuda.synchronize()
