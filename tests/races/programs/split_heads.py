"""Parts of one tensor go to two streams; the tensor is freed while they use it."""

import torch

streams = [torch.cuda.Stream() for _ in range(2)]
totals = []
for step in range(3):
    x = torch.full((2, 1 << 14), float(step + 1), device="cuda")
    for stream, part in zip(streams, x.unbind(0), strict=True):
        stream.wait_stream(torch.cuda.current_stream())  # sync
        with torch.cuda.stream(stream):
            totals.append(part.mul(2).sum())
        part.record_stream(stream)  # sync
    del x, part
torch.cuda.synchronize()
print([t.item() for t in totals])
