"""Give a temporary of the main stream to a side stream, and free it at once."""

import torch

side = torch.cuda.Stream()
total = torch.zeros(1 << 20, device="cuda")
torch.cuda.synchronize()
for step in range(4):
    temporary = torch.full((1 << 20,), float(step), device="cuda")
    side.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(side):
        total.add_(temporary)
    temporary.record_stream(side)  # sync
    del temporary
    torch.full((1 << 20,), -100.0, device="cuda")
torch.cuda.current_stream().wait_stream(side)  # sync
print(total.sum().item())
