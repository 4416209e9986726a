"""Replay a graph whose input another stream fills."""

import torch

static_input = torch.zeros(256, 256, device="cuda")
warm = torch.cuda.Stream()
warm.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(warm):
    (static_input @ static_input).relu_()
torch.cuda.current_stream().wait_stream(warm)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    output = (static_input @ static_input).relu_()
loader = torch.cuda.Stream()
batches = [torch.full((256, 256), float(i)).pin_memory() for i in range(1, 5)]
sums = []
for batch in batches:
    loader.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(loader):
        static_input.copy_(batch, non_blocking=True)
    torch.cuda.current_stream().wait_stream(loader)  # sync
    graph.replay()
    sums.append(output.sum())
print([s.item() for s in sums])
