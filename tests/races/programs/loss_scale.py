"""Check gradients for overflow on the device, and read the flag on the host later."""

import torch

gradient = torch.ones(1 << 16, device="cuda")
flag = torch.zeros(()).pin_memory()
checking = torch.cuda.Stream()
scale = 8.0
history = []
for _ in range(4):
    gradient.mul_(1e15)
    checking.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(checking):
        found = (~gradient.isfinite()).any().float()
        flag.copy_(found, non_blocking=True)
    checking.synchronize()  # sync
    scale = scale / 2 if flag.item() else scale * 2
    history.append(scale)
    torch.cuda.synchronize()
print(history)
