"""A graph with static inputs that a side stream fills."""

import torch

static_in = torch.zeros(1 << 14, device="cuda")
weight = torch.full((1 << 14,), 3.0, device="cuda")
warm = torch.cuda.Stream()
warm.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(warm):
    static_in * weight + 1
torch.cuda.current_stream().wait_stream(warm)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static_out = static_in * weight + 1
feeding = torch.cuda.Stream()
inputs = [torch.full((1 << 14,), float(i)).pin_memory() for i in range(4)]
torch.cuda.synchronize()
sums = []
for one in inputs:
    with torch.cuda.stream(feeding):
        static_in.copy_(one, non_blocking=True)
    torch.cuda.current_stream().wait_stream(feeding)  # sync
    graph.replay()
    sums.append(static_out.sum())
    feeding.wait_stream(torch.cuda.current_stream())  # sync
print([s.item() for s in sums])
