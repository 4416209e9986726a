"""Send batches through a pipeline of four GPUs."""

import torch

stages = [torch.nn.Linear(512, 512, device=f"cuda:{index}") for index in range(4)]
for stage in stages:
    stage(torch.zeros(1, 512, device=stage.weight.device)).sum().backward()
for _ in range(12):
    x = torch.randn(256, 512).pin_memory()
    for index, stage in enumerate(stages):
        x = stage(x.to(f"cuda:{index}", non_blocking=True)).relu()
    x.mean().backward()
for index in range(4):
    torch.cuda.synchronize(index)
