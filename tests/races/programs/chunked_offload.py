"""Send activations to pinned memory and fetch them for the backward pass, each on a stream of its own."""

import torch

out_stream, in_stream = torch.cuda.Stream(), torch.cuda.Stream()
kept = []


def pack(x):
    out_stream.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(out_stream):
        host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        host.copy_(x, non_blocking=True)
        x.record_stream(out_stream)  # sync
        return host, out_stream.record_event()


def unpack(packed):
    host, event = packed
    with torch.cuda.stream(in_stream):
        in_stream.wait_event(event)  # sync
        x = host.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(in_stream)  # sync
    x.record_stream(torch.cuda.current_stream())  # sync
    kept.append(host)
    return x


weight = torch.full((256, 256), 1 / 256, device="cuda", requires_grad=True)
x = torch.arange(256.0, device="cuda").view(1, 256)
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    y = ((x @ weight).sigmoid() @ weight).square().sum()
y.backward()
print(round(weight.grad.sum().item(), 3))
