"""A CUDA C++ kernel on a side stream, between operators on the current one."""

import torch

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y, int factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = factor * x[i];
}
"""
scale = torch.cuda._compile_kernel(SOURCE, "scale")
n = 1 << 14
side = torch.cuda.Stream()
x, y = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
torch.cuda.synchronize()
sums = []
for i in range(3):
    x.add_(i + 1)
    side.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(side):
        scale((n // 256, 1, 1), (256, 1, 1), (x, y, 3, n))
    torch.cuda.current_stream().wait_stream(side)  # sync
    sums.append(y.sum())
print([s.item() for s in sums])
