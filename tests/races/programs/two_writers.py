"""Two streams fill the halves of one buffer, then both update all of it in turn."""

import torch

first, second = torch.cuda.Stream(), torch.cuda.Stream()
buffer = torch.empty(1 << 18, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(first):
    buffer[: 1 << 17] = 1
with torch.cuda.stream(second):
    buffer[1 << 17 :] = 2
first.wait_stream(second)  # sync
with torch.cuda.stream(first):
    buffer.mul_(3)
second.wait_stream(first)  # sync
with torch.cuda.stream(second):
    buffer.add_(1)
torch.cuda.current_stream().wait_stream(second)  # sync
print(buffer.sum().item())
