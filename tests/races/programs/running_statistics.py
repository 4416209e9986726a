"""Accumulate statistics of a batch on a side stream while the batch is normalized in place."""

import torch

mean = torch.zeros(64, device="cuda")
counting = torch.cuda.Stream()
torch.cuda.synchronize()
for step in range(3):
    batch = torch.full((1024, 64), float(step + 1), device="cuda")
    counting.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(counting):
        mean.add_(batch.mean(0))
    batch.record_stream(counting)
    torch.cuda.current_stream().wait_stream(counting)  # sync
    batch.sub_(10)
torch.cuda.current_stream().wait_stream(counting)
print(mean.sum().item())
