"""A step of training, as for any GPU."""

import torch

model = torch.nn.Linear(784, 10).cuda()
x = torch.randn(64, 784, device="cuda")
model(x).square().mean().backward()

print(torch.cuda.get_device_name())
print(model.weight.grad.device)
print(torch.cuda.memory_allocated(), "bytes")
