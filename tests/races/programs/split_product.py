"""Compute two halves of a product on two streams, and add them on the main stream."""

import torch

a = torch.arange(256 * 256, device="cuda", dtype=torch.float32).view(256, 256).remainder_(5)
b = a.t().contiguous()
left, right = torch.cuda.Stream(), torch.cuda.Stream()
start = torch.cuda.current_stream().record_event()
left.wait_event(start)  # sync
right.wait_event(start)  # sync
with torch.cuda.stream(left):
    first = a[:, :128] @ b[:128]
with torch.cuda.stream(right):
    second = a[:, 128:] @ b[128:]
torch.cuda.current_stream().wait_stream(left)  # sync
torch.cuda.current_stream().wait_stream(right)  # sync
first.record_stream(torch.cuda.current_stream())
second.record_stream(torch.cuda.current_stream())
print((first + second).sum().item())
