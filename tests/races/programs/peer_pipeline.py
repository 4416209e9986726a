"""A pipeline over two GPUs: activations are copied to the next stage on a stream for communication."""

import torch

first, last = torch.device("cuda:0"), torch.device("cuda", torch.cuda.device_count() - 1)
weights = [torch.full((1 << 14,), float(i + 2), device=where) for i, where in enumerate((first, last))]
sending, computing = torch.cuda.Stream(first), torch.cuda.Stream(last)
torch.cuda.synchronize(first)
torch.cuda.synchronize(last)
sums = []
for i in range(4):
    x = torch.full((1 << 14,), float(i), device=first) * weights[0]
    sending.wait_stream(torch.cuda.current_stream(first))  # sync
    received = torch.empty(1 << 14, device=last)
    computing.wait_stream(torch.cuda.current_stream(last))
    with torch.cuda.stream(sending):
        received.copy_(x, non_blocking=True)
        x.record_stream(sending)
    computing.wait_stream(sending)  # sync
    with torch.cuda.stream(computing):
        sums.append((received + weights[1]).sum())
    received.record_stream(computing)
    del x, received
torch.cuda.synchronize(last)
print([s.item() for s in sums])
