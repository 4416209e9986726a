"""Run forward and backward on a side stream, and step on the main stream."""

import torch

weight = torch.ones(128, 128, device="cuda", requires_grad=True)
side = torch.cuda.Stream()
values = []
for step in range(3):
    side.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(side):
        loss = (weight * (step + 1)).square().sum() / 128
        (grad,) = torch.autograd.grad(loss, weight)
    torch.cuda.current_stream().wait_stream(side)  # sync
    grad.record_stream(torch.cuda.current_stream())
    with torch.no_grad():
        weight.sub_(grad, alpha=0.125)
    values.append(weight.detach().sum())
print([v.item() for v in values])
