"""Append keys to a cache on a side stream while attention reads the rows before."""

import torch

cache = torch.zeros(8, 256, device="cuda")
updating = torch.cuda.Stream()
torch.cuda.synchronize()
outputs = []
for position in range(8):
    key = torch.full((256,), float(position + 1), device="cuda")
    updating.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(updating):
        cache[position].copy_(key)
    key.record_stream(updating)
    torch.cuda.current_stream().wait_stream(updating)  # sync
    outputs.append(cache[: position + 1].sum())
print([o.item() for o in outputs])
