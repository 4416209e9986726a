"""Run layers whose weights arrive from the host one layer ahead, into two device buffers."""

import torch

layers = [torch.eye(128).mul_(i + 1).pin_memory() for i in range(4)]
buffers = [torch.empty(128, 128, device="cuda") for _ in range(2)]
loading = torch.cuda.Stream()
loaded = [torch.cuda.Event() for _ in range(2)]
used = [torch.cuda.Event() for _ in range(2)]
x = torch.ones(16, 128, device="cuda")
torch.cuda.synchronize()


def load(i):
    slot = i % 2
    with torch.cuda.stream(loading):
        loading.wait_event(used[slot])  # sync
        buffers[slot].copy_(layers[i], non_blocking=True)
        loaded[slot].record()  # sync


load(0)
for i in range(4):
    if i + 1 < 4:
        load(i + 1)
    torch.cuda.current_stream().wait_event(loaded[i % 2])  # sync
    x = x @ buffers[i % 2]
    used[i % 2].record()  # sync
print(x.sum().item())
