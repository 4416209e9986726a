"""Three streams pass a tensor on by events."""

import torch

streams = [torch.cuda.Stream() for _ in range(3)]
done = [torch.cuda.Event() for _ in range(3)]
x = torch.ones(1 << 18, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(streams[0]):
    x.mul_(3)
    done[0].record()  # sync
with torch.cuda.stream(streams[1]):
    streams[1].wait_event(done[0])  # sync
    x.add_(1)
    done[1].record()  # sync
with torch.cuda.stream(streams[2]):
    streams[2].wait_event(done[1])  # sync
    x.mul_(5)
    done[2].record()  # sync
torch.cuda.current_stream().wait_event(done[2])  # sync
print(x.sum().item())
