"""Keep an average of the weights on a side stream."""

import torch

weight = torch.zeros(1 << 16, device="cuda")
average = torch.zeros(1 << 16, device="cuda")
averaging = torch.cuda.Stream()
torch.cuda.synchronize()
for step in range(4):
    torch.cuda.current_stream().wait_stream(averaging)  # sync
    weight.add_(step + 1)
    averaging.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(averaging):
        average.lerp_(weight, 0.5)
averaging.synchronize()  # sync
print(average.sum().item(), weight.sum().item())
