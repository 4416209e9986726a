"""Fill one pinned buffer again and again; each batch is copied before the next one is written."""

import torch

buffer = torch.empty(1 << 18).pin_memory()
copied = torch.cuda.Event()
sums = []
for step in range(4):
    buffer.fill_(step + 1)
    batch = buffer.to("cuda", non_blocking=True)
    copied.record()
    sums.append((batch * 2).sum())
    copied.synchronize()  # sync
print([s.item() for s in sums])
