"""Read a graph's static output on a second stream before the next replay overwrites it."""

import torch

static_input = torch.zeros(1 << 16, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    static_output = static_input * 2 + 1
reader = torch.cuda.Stream()
kept = []
for step in range(4):
    static_input.fill_(step)
    graph.replay()
    reader.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(reader):
        kept.append(static_output.sum())
    torch.cuda.current_stream().wait_stream(reader)  # sync
print([k.item() for k in kept])
