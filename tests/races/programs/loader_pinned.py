"""A DataLoader's pinned batches are copied on a side stream."""

import torch
from torch.utils.data import DataLoader, TensorDataset

rows = torch.arange(64.0).view(64, 1).expand(64, 256).contiguous()
loader = DataLoader(TensorDataset(rows), batch_size=16, pin_memory=True)
copying = torch.cuda.Stream()
ready = torch.cuda.Event()
total = torch.zeros(256, device="cuda")
kept = []
for (batch,) in loader:
    with torch.cuda.stream(copying):
        moved = batch.to("cuda", non_blocking=True)
    copying.record_event(ready)
    torch.cuda.current_stream().wait_event(ready)  # sync
    moved.record_stream(torch.cuda.current_stream())  # sync
    total += moved.sum(0)
    kept.append(batch)
    del moved
print(total.sum().item())
