"""Step the optimizer on a stream of its own while the main stream goes on."""

import torch

torch.manual_seed(0)
model = torch.nn.Linear(64, 64, bias=False)
with torch.no_grad():
    model.weight.copy_(torch.eye(64))
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
stepping = torch.cuda.Stream()
data = torch.ones(32, 64, device="cuda")
losses = []
for _ in range(4):
    loss = model(data).square().mean()
    optimizer.zero_grad(set_to_none=False)
    loss.backward()
    losses.append(loss.detach())
    stepping.wait_stream(torch.cuda.current_stream())  # sync
    with torch.cuda.stream(stepping):
        optimizer.step()
    torch.cuda.current_stream().wait_stream(stepping)  # sync
print([x.item() for x in losses], model.weight.sum().item())
