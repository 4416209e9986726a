"""Train a small network as many programs do: with a copy, a conversion and a .item() at every step."""

import torch

model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
images, labels = torch.randn(2048, 256, dtype=torch.float64), torch.randint(10, (2048,))
prefetch, history = torch.cuda.Stream(), []

optimizer.zero_grad()
model(torch.zeros(1, 256, device="cuda")).sum().backward()  # the first step loads what later ones reuse
optimizer.step()

for _ in range(2):
    for start in range(0, 2048, 64):
        x = images[start : start + 64].cuda().float()
        with torch.cuda.stream(prefetch):
            y = labels[start : start + 64].pin_memory().to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(prefetch)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
print(f"loss {history[0]:.2f} to {history[-1]:.2f}")
