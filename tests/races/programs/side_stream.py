"""Compute on a side stream between two steps of the main stream."""

import torch

side = torch.cuda.Stream()
x = torch.zeros(512, 512, device="cuda")
for step in range(4):
    x.add_(step + 1)
    side.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(side):
        y = x @ x.t() / 512
        y.record_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_stream(side)  # sync
    x.copy_(y.remainder(7))
print(x.sum().item())
