"""Alternate between two pinned buffers, each with an event of its last copy."""

import torch

buffers = [torch.empty(1 << 18).pin_memory() for _ in range(2)]
copied = [torch.cuda.Event() for _ in range(2)]
stream = torch.cuda.Stream()
sums = []
for step in range(6):
    slot = step % 2
    copied[slot].synchronize()  # sync
    buffers[slot].fill_(step)
    with torch.cuda.stream(stream):
        batch = buffers[slot].to("cuda", non_blocking=True)
        copied[slot].record(stream)
    torch.cuda.current_stream().wait_event(copied[slot])  # sync
    batch.record_stream(torch.cuda.current_stream())
    sums.append(batch.sum())
print([s.item() for s in sums])
