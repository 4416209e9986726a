"""Reduce gradients on a side stream from hooks, as overlapped data parallelism does."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
with torch.no_grad():
    for i, p in enumerate(model.parameters()):
        p.fill_(0.125 * (i + 1))
model.cuda()
reducing = torch.cuda.Stream()


def reduce(parameter):
    reducing.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(reducing):
        parameter.grad.mul_(0.5)


for p in model.parameters():
    p.register_post_accumulate_grad_hook(reduce)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.ones(16, 64, device="cuda")
for _ in range(3):
    model(data).mean().backward()
    torch.cuda.current_stream().wait_stream(reducing)  # sync
    optimizer.step()
    optimizer.zero_grad()
print([round(p.sum().item(), 4) for p in model.parameters()])
