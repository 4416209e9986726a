"""A Triton kernel on a side stream, between operators on the current one."""

import torch
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


n = 1 << 14
side = torch.cuda.Stream()
x, y = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
torch.cuda.synchronize()
sums = []
for i in range(3):
    x.add_(i + 1)
    side.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(side):
        twice[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
    torch.cuda.current_stream().wait_stream(side)  # sync
    sums.append(y.sum())
print([s.item() for s in sums])
