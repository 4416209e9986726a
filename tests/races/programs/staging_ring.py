"""Stage chunks of a large host array through a ring of pinned buffers."""

import torch

source = torch.arange(1 << 16, dtype=torch.float32)
chunks = source.view(8, -1)
target = torch.empty(8, 1 << 13, device="cuda")
ring = [torch.empty(1 << 13).pin_memory() for _ in range(3)]
free = [None] * 3
for i, chunk in enumerate(chunks):
    slot = i % 3
    if free[slot] is not None:
        free[slot].synchronize()  # sync
    ring[slot].copy_(chunk)
    target[i].copy_(ring[slot], non_blocking=True)
    free[slot] = torch.cuda.current_stream().record_event()
print(target.double().sum().item(), target[:, 0].tolist())
