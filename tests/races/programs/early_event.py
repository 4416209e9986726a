"""Record an event after the last of two kernels; the reader waits for it."""

import torch

writing, reading = torch.cuda.Stream(), torch.cuda.Stream()
x = torch.zeros(1 << 18, device="cuda")
ready = torch.cuda.Event()
torch.cuda.synchronize()
with torch.cuda.stream(writing):
    x.add_(1)
    ready.record()
    x.mul_(10)
    ready.record()  # sync
with torch.cuda.stream(reading):
    reading.wait_event(ready)  # sync
    total = x.sum()
reading.synchronize()
print(total.item())
