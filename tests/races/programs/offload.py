"""Move activations to pinned memory after the forward, and back for the backward."""

import torch

offloading = torch.cuda.Stream()
activations = [torch.full((1 << 16,), float(i + 1), device="cuda") for i in range(3)]
hosts = []
offloading.wait_stream(torch.cuda.current_stream())  # sync
with torch.cuda.stream(offloading):
    for a in activations:
        host = torch.empty(a.shape).pin_memory()
        host.copy_(a, non_blocking=True)
        a.record_stream(offloading)  # sync
        hosts.append(host)
del activations, a
scratch = [torch.full((1 << 16,), -50.0, device="cuda") for _ in range(3)]
with torch.cuda.stream(offloading):
    restored = [host.to("cuda", non_blocking=True) for host in hosts]
torch.cuda.current_stream().wait_stream(offloading)  # sync
total = torch.zeros((), device="cuda")
for r in restored:
    r.record_stream(torch.cuda.current_stream())
    total += r.sum()
print(total.item(), sum(s.sum().item() for s in scratch))
